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

# Compiled with the flags of the project that links it: so it goes with any.
if(NOT TARGET tenure::compiled)
    add_library(tenure_compiled STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/../../tenure/tenure.cpp)
    add_library(tenure::compiled ALIAS tenure_compiled)
    target_compile_definitions(tenure_compiled PUBLIC TENURE_SEPARATE)
    set_target_properties(tenure_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)  # for plugins, too
    target_link_libraries(tenure_compiled PUBLIC tenure::tenure)
endif()
