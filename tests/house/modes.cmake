# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The ways to have tenure, besides header-only: compiled once for all sources of a program, and imported.
set(dir ${CMAKE_CURRENT_LIST_DIR})
add_executable(modes_compiled ${dir}/modes/one.cpp ${dir}/modes/two.cpp)
target_link_libraries(modes_compiled PRIVATE tenure_strict tenure_compiled)
add_test(NAME modes.compiled COMMAND modes_compiled)

# A program with the core alone.
add_executable(modes_core_only ${dir}/modes/core_only.cpp)
target_link_libraries(modes_core_only PRIVATE tenure_strict)
add_test(NAME modes.core_only COMMAND modes_core_only)

# Sources of a program that do not agree do not link, and the linker says which do not.
function(add_mixed_test name first second)
    foreach(source one two)
        add_library(modes_${name}_${source} OBJECT ${dir}/modes/${source}.cpp)
        target_link_libraries(modes_${name}_${source} PRIVATE tenure_strict)
        target_compile_options(modes_${name}_${source} PRIVATE -O0 -g0)
    endforeach()
    target_compile_options(modes_${name}_one PRIVATE ${first})
    target_compile_options(modes_${name}_two PRIVATE ${second})
    add_test(NAME modes.mixed_${name}
        COMMAND ${CMAKE_COMMAND} "-Dsays=tenure_[0-9]+_[0-9]+_[0-9]+${ARGN}_here_but_not_in_all_sources" -Dexits=1
            -P ${PROJECT_SOURCE_DIR}/examples/expect.cmake
            -- ${CMAKE_CXX_COMPILER} $<TARGET_OBJECTS:modes_${name}_one> $<TARGET_OBJECTS:modes_${name}_two>
                $<TARGET_FILE:tenure_compiled> -Wl,--gc-sections -o ${CMAKE_CURRENT_BINARY_DIR}/mixed_${name}
        COMMAND_EXPAND_LISTS)
endfunction()
add_mixed_test(modes -UTENURE_SEPARATE -DTENURE_SEPARATE _compiled)
add_mixed_test(exceptions -fexceptions -fno-exceptions _header_only_no_exceptions)
add_mixed_test(sanitizers -fno-sanitize=all -fsanitize=address _header_only_asan)

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17)
    add_test(NAME modes.module COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR} -Dcompiler=${CMAKE_CXX_COMPILER}
        -Ddir=${CMAKE_CURRENT_BINARY_DIR}/module -P ${dir}/check_module.cmake)
endif()

# What a feature needs is in its folder: the rest does without.
foreach(feature background checkpoints inspect listing paging timing uses whole)
    set(header ${feature})
    if(feature STREQUAL uses)
        set(header pin)
    elseif(feature STREQUAL listing)
        set(header objects)
    elseif(feature STREQUAL whole)
        set(header whole_batch)
    endif()
    add_test(NAME removable.${feature}
        COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR} -Dcompiler=${CMAKE_CXX_COMPILER} -Dfolder=${feature}
            -Dheader=${header} -Ddir=${CMAKE_CURRENT_BINARY_DIR}/removable/${feature} -P ${dir}/check_removable.cmake)
endforeach()
