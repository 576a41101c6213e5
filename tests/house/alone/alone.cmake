# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Whoever includes one header of what users name, or of a store, and uses what it declares, can link: each source here
# is a program that includes the header of its name and no other of ours, but for the store that an adaptor needs.
set(root ${PROJECT_SOURCE_DIR}/include/tenure)
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp ${root}/store/*.hpp ${root}/remote/client.hpp
    ${root}/remote/server.hpp)
set(elsewhere  # used so by programs of their own
    fwd.hpp                  # fwd_test
    store/adaptor.hpp        # adaptors_conformance_test
    store/conformance.hpp    # heap_store_test
    src.hpp                  # tests/house/modes
    store/dedup.hpp          # dedup_store_test
    store/durable_mmap.hpp   # durable_files_test
    store/tiered.hpp)        # tiered_store_test

foreach(header IN LISTS headers)
    if(header IN_LIST elsewhere)
        continue()
    endif()
    string(REGEX REPLACE "[.]hpp$" "" name ${header})
    set(source ${CMAKE_CURRENT_LIST_DIR}/${name}.cpp)
    if(NOT EXISTS ${source})
        message(FATAL_ERROR "tests/house/alone/${name}.cpp should use what tenure/${header} declares")
    endif()
    if(name MATCHES "^remote/")
        set(compiled .remote)
    else()
        set(compiled .compiled)
    endif()
    string(REPLACE / . name alone.${name})
    foreach(mode "" ${compiled})
        string(REPLACE . _ library tenure${mode})
        add_executable(${name}${mode} ${source})
        target_link_libraries(${name}${mode} PRIVATE tenure_strict ${library})
        target_compile_options(${name}${mode} PRIVATE -O0 -g0)  # what is used is there, and nothing is inlined away
        add_test(NAME ${name}${mode} COMMAND ${name}${mode})
    endforeach()
endforeach()
