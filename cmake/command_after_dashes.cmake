# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# For scripts run as: cmake -P SCRIPT -- PROGRAM ARGUMENTS... Sets `command` to what follows the dashes.
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
