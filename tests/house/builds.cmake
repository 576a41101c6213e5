# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Builds with flags that are not ours.
add_executable(no_exceptions house/no_exceptions.cpp)
target_link_libraries(no_exceptions PRIVATE tenure_strict)
target_compile_options(no_exceptions PRIVATE -fno-exceptions -fno-rtti)
add_test(NAME builds.no_exceptions COMMAND no_exceptions)

# g++ warns of fences, which its ThreadSanitizer does not know; and so only when it compiles to the end.
add_library(thread_sanitizer OBJECT house/thread_sanitizer.cpp)
target_link_libraries(thread_sanitizer PRIVATE tenure_strict)
target_compile_options(thread_sanitizer PRIVATE -fsanitize=thread -Werror)

# An older standard is refused with one line, by whatever compilers are here.
find_program(tenure_gcc g++)
find_program(tenure_clang NAMES clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++)
mark_as_advanced(tenure_gcc tenure_clang)
foreach(compiler gcc clang)
    if(tenure_${compiler})
        add_test(NAME builds.needs_cxx20.${compiler}
            COMMAND ${CMAKE_COMMAND} -P ${tests}/house/run_needs_cxx20.cmake
                -- ${tenure_${compiler}} -fsyntax-only -I${PROJECT_SOURCE_DIR}/include ${first_example})
    endif()
endforeach()
