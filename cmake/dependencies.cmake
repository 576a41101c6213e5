# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# What tenure::tenure links to. Read by this build and, installed, by find_package(tenure): both say the same when
# something is missing, in `tenure_missing`; and in `tenure_boost_missing`, when it is only asio.hpp and remote/ that
# cannot be used without it.
set(tenure_missing "")
set(tenure_boost_missing "")

find_package(Threads QUIET)
if(NOT Threads_FOUND)
    set(tenure_missing "no thread library found for this compiler")
endif()

# First Boost's own package, then bare headers, as an unpacked release or a package manager may have them. Older ones
# lack what is used of Asio: 1.74 as_tuple, any_completion_handler and cancellation slots.
if(NOT TARGET Boost::headers)
    find_package(Boost 1.81 QUIET CONFIG COMPONENTS headers)
endif()
if(NOT TARGET Boost::headers)
    find_path(tenure_boost_include boost/version.hpp HINTS ${Boost_ROOT} ENV BOOST_ROOT PATH_SUFFIXES include)
    mark_as_advanced(tenure_boost_include)
    set(tenure_boost_version 0)
    if(tenure_boost_include)
        file(STRINGS ${tenure_boost_include}/boost/version.hpp tenure_boost_version REGEX "^#define BOOST_VERSION ")
        string(REGEX MATCH "[0-9]+$" tenure_boost_version "${tenure_boost_version}")
    endif()
    if(tenure_boost_version GREATER_EQUAL 108100)
        add_library(Boost::headers INTERFACE IMPORTED)
        target_include_directories(Boost::headers INTERFACE ${tenure_boost_include})
    else()
        # Else a newer Boost that is installed after this would not be looked for.
        unset(tenure_boost_include CACHE)
        string(CONCAT tenure_boost_missing
            "Boost >= 1.81 not found, which asio.hpp and remote/ need (headers are enough). "
            "Debian 12: apt install libboost1.81-dev (in place of its default, 1.74); "
            "Debian 13, Ubuntu 24.04 or later: apt install libboost-dev; "
            "elsewhere set Boost_ROOT to where it is.")
    endif()
endif()
