# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The test behind add_demo_test: cmake -Dsays=REGEX -Dexits=STATUS -P this -- PROGRAM ARGUMENTS...
# Both count; where ctest itself is given an expression, it does not look at the status any more.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/command_after_dashes.cmake)

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
message("${said}")
if(NOT status STREQUAL exits)
    message(FATAL_ERROR "it ended with ${status}, and should with ${exits}")
endif()
if(NOT said MATCHES "${says}")
    message(FATAL_ERROR "nothing in this matches \"${says}\"")
endif()
