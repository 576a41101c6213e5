# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The test behind add_compile_fail_test: cmake -Dsource=FILE -Dregex=REGEX -P this -- COMPILER ARGUMENTS...
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/command_after_dashes.cmake)

execute_process(COMMAND ${command} -DTENURE_COMPILES RESULT_VARIABLE failed ERROR_VARIABLE said)
if(failed)
    message(FATAL_ERROR "${source} does not compile even with TENURE_COMPILES defined:\n${said}")
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE failed ERROR_VARIABLE said)
if(NOT failed)
    message(FATAL_ERROR "${source} compiles, and should not")
endif()
if(NOT said MATCHES "${regex}")
    message(FATAL_ERROR "${source} fails to compile, but nothing in this matches \"${regex}\":\n${said}")
endif()
