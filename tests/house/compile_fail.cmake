# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Tests that SOURCE does not compile, and that the compiler says why in words that match REGEX.
#
#     add_compile_fail_test(NAME SOURCE REGEX)
#
# As a control, SOURCE must compile once TENURE_COMPILES is defined: put the error, and nothing else, behind
# `#ifndef TENURE_COMPILES`. Then it is that line which fails, and not a missing include.
function(add_compile_fail_test name source regex)
    cmake_path(ABSOLUTE_PATH source)
    set(include_dirs $<TARGET_PROPERTY:test_main,INCLUDE_DIRECTORIES>)
    add_test(NAME compile_fail.${name}
        COMMAND ${CMAKE_COMMAND} "-Dregex=${regex}" -Dsource=${source} -P ${tests}/house/run_compile_fail.cmake
            -- ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only "-I$<JOIN:${include_dirs},;-I>" ${source}
        COMMAND_EXPAND_LISTS)
endfunction()

# Each compile_fail/NAME.cpp is such a test; its line `// error: REGEX` says what is to be matched.
file(GLOB sources CONFIGURE_DEPENDS compile_fail/*.cpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    file(STRINGS ${source} regex REGEX "^// error: ")
    string(REPLACE "// error: " "" regex "${regex}")
    add_compile_fail_test(${name} ${source} "${regex}")
endforeach()
