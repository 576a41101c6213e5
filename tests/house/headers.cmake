# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Header-only has bugs of its own: a missing include, a missing `inline`, no guard, an order that matters. One
# program shows all four: each header is a translation unit, in which it comes first and twice; two more include
# everything, forwards and backwards; all are linked together.
set(root ${PROJECT_SOURCE_DIR}/include)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp)
list(REMOVE_ITEM headers tenure/src.hpp tenure/remote/src.hpp)  # for another mode: modes.cmake
list(SORT headers)
set(dir ${CMAKE_CURRENT_BINARY_DIR}/house/headers)

# What a header includes is checked on its own, too: so those that have one of these among it may start from that, read
# once. Of two the later. (Not with g++ 12, which precompiled headers now and then cost an internal error.)
set(bases "")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(bases tenure/error.hpp tenure/store/concept.hpp tenure/detail/batch/batch_record.hpp tenure/detail/checkpoints/checkpoint_record.hpp
        tenure/detail/life/calls.hpp tenure/remote/transport.hpp)
endif()

# Sets `result` to all headers of ours that those lead to that `header` begins with.
function(find_included header result)
    get_property(known GLOBAL PROPERTY included_by_${header} SET)
    if(NOT known)
        set(all "")
        set_property(GLOBAL PROPERTY included_by_${header} "")
        file(STRINGS ${root}/${header} lines REGEX "^(#include <tenure/|namespace)")
        foreach(line IN LISTS lines)
            if(line MATCHES "^namespace")
                break()
            endif()
            string(REGEX REPLACE "^#include <([^>]+)>.*" "\\1" other "${line}")
            find_included(${other} more)
            list(APPEND all ${other} ${more})
        endforeach()
        list(REMOVE_DUPLICATES all)
        set_property(GLOBAL PROPERTY included_by_${header} "${all}")
    endif()
    get_property(all GLOBAL PROPERTY included_by_${header})
    set(${result} "${all}" PARENT_SCOPE)
endfunction()

set(forwards "")
set(backwards "")
foreach(header IN LISTS headers)
    string(REPLACE / . unit ${header})
    file(CONFIGURE OUTPUT ${dir}/${unit}.cpp CONTENT "#include <${header}>\n#include <${header}>\n")
    set(start nothing)
    find_included(${header} included)
    foreach(base IN LISTS bases)
        if(base IN_LIST included)
            string(REPLACE / . start ${base})
        endif()
    endforeach()
    list(APPEND units_from_${start} ${dir}/${unit}.cpp)
    string(APPEND forwards "#include <${header}>\n")
    string(PREPEND backwards "#include <${header}>\n")
endforeach()

# Where every header is in, each type that fwd.hpp names has a size.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/tenure/fwd.hpp)
file(READ ${root}/tenure/fwd.hpp names)
string(REGEX REPLACE "template <class [A-Z]>\nclass ([a-z_]+)" "class \\1<int>" names "${names}")
string(REGEX MATCHALL "\n(class|struct) [a-z_<>]+" names "${names}")
string(REGEX REPLACE ";?\n(class|struct) ([^;]+)" "static_assert(sizeof(tenure::\\2) != 0);\n" sizes "${names}")

file(CONFIGURE OUTPUT ${dir}/forwards.cpp CONTENT "${forwards}\n${sizes}")
file(CONFIGURE OUTPUT ${dir}/backwards.cpp CONTENT "${backwards}\nint main() {}\n")

# A header may declare what another defines, which public ones bring along and those of detail/ need not.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(undefined_is_fine -Wno-undefined-inline)
endif()
add_executable(headers ${units_from_nothing} ${dir}/forwards.cpp ${dir}/backwards.cpp)
target_link_libraries(headers PRIVATE tenure_strict)
target_compile_options(headers PRIVATE -O0 ${undefined_is_fine})  # it is the reading that counts
foreach(base IN LISTS bases)
    string(REPLACE / . start ${base})
    add_library(headers_from_${start} OBJECT ${units_from_${start}})
    target_link_libraries(headers_from_${start} PRIVATE tenure_strict)
    target_compile_options(headers_from_${start} PRIVATE -O0 ${undefined_is_fine})
    target_precompile_headers(headers_from_${start} PRIVATE <${base}>)
    target_link_libraries(headers PRIVATE headers_from_${start})
endforeach()
add_test(NAME headers COMMAND headers)
