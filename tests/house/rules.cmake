# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# What can be read off the sources without compiling them.
foreach(rule layers spdx)
    add_test(NAME ${rule}
        COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR} -P ${tests}/house/check_${rule}.cmake)
endforeach()
