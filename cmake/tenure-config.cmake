# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# find_package(tenure COMPONENTS asio) finds nothing where there is no Boost for asio.hpp and remote/.
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
if(tenure_boost_missing AND tenure_FIND_REQUIRED_asio)
    string(APPEND tenure_missing ${tenure_boost_missing})
endif()
if(tenure_missing)
    set(tenure_FOUND FALSE)
    set(tenure_NOT_FOUND_MESSAGE "${tenure_missing}")
    return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/tenure-targets.cmake)
if(NOT tenure_boost_missing)
    target_link_libraries(tenure::tenure INTERFACE Boost::headers)
    set(tenure_asio_FOUND TRUE)
endif()

if(NOT TARGET tenure::compiled)
    include(${CMAKE_CURRENT_LIST_DIR}/compiled.cmake)
    tenure_add_compiled(${CMAKE_CURRENT_LIST_DIR}/../../tenure tenure::tenure)
endif()
