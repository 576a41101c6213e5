# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The test behind add_demo_test: cmake -Dsays=REGEX -Dexits=STATUS -P this -- PROGRAM ARGUMENTS...
# Both count; where ctest itself is given an expression, it does not look at the status any more.
set(command "")
set(after FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
    if(after)
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif(CMAKE_ARGV${i} STREQUAL "--")
        set(after TRUE)
    endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
message("${said}")
if(NOT status STREQUAL exits)
    message(FATAL_ERROR "it ended with ${status}, and should with ${exits}")
endif()
if(NOT said MATCHES "${says}")
    message(FATAL_ERROR "nothing in this matches \"${says}\"")
endif()
