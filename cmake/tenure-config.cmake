# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
if(tenure_missing)
    set(tenure_FOUND FALSE)
    set(tenure_NOT_FOUND_MESSAGE "${tenure_missing}")
    return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/tenure-targets.cmake)
