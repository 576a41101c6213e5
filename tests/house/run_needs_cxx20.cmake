# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The test behind builds.needs_cxx20: cmake -P this -- COMPILER ARGUMENTS... As C++20 it compiles; as C++17 there is
# one error, which says what to do.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/command_after_dashes.cmake)

execute_process(COMMAND ${command} -std=c++20 RESULT_VARIABLE failed ERROR_VARIABLE said)
if(failed)
    message(FATAL_ERROR "it does not compile as C++20:\n${said}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${command} -std=c++17 RESULT_VARIABLE failed ERROR_VARIABLE said)
if(NOT failed)
    message(FATAL_ERROR "it compiles as C++17, and should not")
endif()
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${said}")
list(LENGTH errors count)
if(NOT count EQUAL 1 OR NOT errors MATCHES "tenure needs C[+][+]20: compile with -std=c[+][+]20")
    message(FATAL_ERROR "not one line that says what to do, but ${count}:\n${said}")
endif()
