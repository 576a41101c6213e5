# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Builds with flags that are not ours.
add_executable(no_exceptions house/no_exceptions.cpp)
target_link_libraries(no_exceptions PRIVATE tenure_strict)
target_compile_options(no_exceptions PRIVATE -fno-exceptions -fno-rtti)
add_test(NAME builds.no_exceptions COMMAND no_exceptions)

# With clang's own library, too, which has std::format and, if asked, std::stop_token.
set(libcxx -stdlib=libc++ -fexperimental-library)
set(why_not "")
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(why_not "only clang compiles with libc++")
else()
    file(CONFIGURE OUTPUT libcxx.cpp CONTENT "#include <format>\n#include <stop_token>\nint main() { std::stop_source s; }\n")
    try_compile(tenure_has_libcxx ${CMAKE_CURRENT_BINARY_DIR}/libcxx ${CMAKE_CURRENT_BINARY_DIR}/libcxx.cpp
        COMPILE_DEFINITIONS ${libcxx} LINK_OPTIONS ${libcxx} CXX_STANDARD 20)
    if(NOT tenure_has_libcxx)
        set(why_not "no libc++ 19 here: apt install libc++-19-dev libc++abi-19-dev, or of another number")
    endif()
endif()
if(why_not)
    add_test(NAME builds.libcxx COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${why_not}")
else()
    add_executable(libcxx_messages ${tests}/messages_test.cpp ${tests}/main.cpp)
    target_include_directories(libcxx_messages PRIVATE ${tests})
    target_compile_definitions(libcxx_messages PRIVATE TENURE_SANITIZED=0 TENURE_TESTS="${tests}")
    target_link_libraries(libcxx_messages PRIVATE doctest::doctest tenure_strict)
    target_compile_options(libcxx_messages PRIVATE ${libcxx})
    target_link_options(libcxx_messages PRIVATE ${libcxx})
    add_test(NAME builds.libcxx COMMAND libcxx_messages)
endif()
set_tests_properties(builds.libcxx PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")

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
