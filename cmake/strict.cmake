# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Link to tenure_strict what this project builds itself. The presets turn the warnings into errors, not this file:
# so a stranger's newer compiler can be told otherwise (cmake --compile-no-warning-as-error).
add_library(tenure_strict INTERFACE)
target_link_libraries(tenure_strict INTERFACE tenure)
set(CMAKE_CXX_EXTENSIONS OFF)
target_compile_options(tenure_strict INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It looks for garbage from 128 MB on, which takes it a tenth of the time and finds little.
    target_compile_options(tenure_strict INTERFACE --param=ggc-min-heapsize=800000)
endif()

if(tenure_boost_missing)
    message(FATAL_ERROR "tenure: its own tests need all of it: ${tenure_boost_missing}")
endif()

# What opt-in headers include (json.hpp): for who includes them, and so not in tenure::tenure.
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
    message(FATAL_ERROR "tenure: its own tests need nlohmann's json: apt install nlohmann-json3-dev")
endif()
target_link_libraries(tenure_strict INTERFACE nlohmann_json::nlohmann_json)

# ... store/dedup.hpp and store/durable_mmap.hpp. Neither library has a CMake package of its own on Debian.
find_path(tenure_lmdb_include lmdb.h)
find_library(tenure_lmdb lmdb)
find_path(tenure_xxhash_include xxhash.h)
find_library(tenure_xxhash xxhash)
mark_as_advanced(tenure_lmdb_include tenure_lmdb tenure_xxhash_include tenure_xxhash)
if(NOT tenure_lmdb_include OR NOT tenure_lmdb)
    message(FATAL_ERROR "tenure: its own tests need LMDB: apt install liblmdb-dev")
endif()
if(NOT tenure_xxhash_include OR NOT tenure_xxhash)
    message(FATAL_ERROR "tenure: its own tests need xxHash: apt install libxxhash-dev")
endif()
target_include_directories(tenure_strict SYSTEM INTERFACE ${tenure_lmdb_include} ${tenure_xxhash_include})
target_link_libraries(tenure_strict INTERFACE ${tenure_lmdb} ${tenure_xxhash})

# ... and device/opencl.hpp. The tests run it on PoCL.
find_package(OpenCL QUIET)
if(NOT OpenCL_FOUND)
    message(FATAL_ERROR "tenure: its own tests need OpenCL and a device that runs it: "
        "apt install ocl-icd-opencl-dev opencl-headers pocl-opencl-icd")
endif()
target_link_libraries(tenure_strict INTERFACE OpenCL::OpenCL)

# ... and remote/tls.hpp, which alone needs it.
find_package(OpenSSL QUIET)
if(NOT OPENSSL_FOUND)
    message(FATAL_ERROR "tenure: its own tests need OpenSSL: apt install libssl-dev")
endif()
target_link_libraries(tenure_strict INTERFACE OpenSSL::SSL)

set(TENURE_SANITIZE "" CACHE STRING "Sanitizers for the tests: address,undefined or thread")
if(TENURE_SANITIZE)
    # A report ends the program: a test must not pass over it.
    target_compile_options(tenure_strict INTERFACE
        -fsanitize=${TENURE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(tenure_strict INTERFACE -fsanitize=${TENURE_SANITIZE})
    if(TENURE_SANITIZE STREQUAL "thread")
        # ThreadSanitizer does not know fences, with which Asio counts references; so it counts as Boost does elsewhere.
        target_compile_definitions(tenure_strict INTERFACE BOOST_ASIO_DISABLE_STD_ATOMIC)
    endif()
endif()

option(TENURE_COMPILED "Tests and examples link tenure::compiled and tenure::remote, rather than compile all of it each" OFF)
set(tenure_mode tenure)
set(tenure_remote_mode tenure)  # for what includes remote/client.hpp or remote/server.hpp
if(TENURE_COMPILED)
    set(tenure_mode tenure_compiled)
    set(tenure_remote_mode tenure_remote)
endif()
foreach(library tenure_compiled tenure_remote)
    target_compile_options(${library} PRIVATE $<TARGET_PROPERTY:tenure_strict,INTERFACE_COMPILE_OPTIONS>)
    # Else Asio's classes would have one layout here and another in the tests.
    target_compile_definitions(${library} PRIVATE $<TARGET_PROPERTY:tenure_strict,INTERFACE_COMPILE_DEFINITIONS>)
endforeach()
