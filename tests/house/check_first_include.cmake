# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: each public header comes to version.hpp before all else, which stops with one line
# if the compiler is too old. Public is what is not in detail/, impl/, or in a folder X/ beside an X.hpp.
cmake_minimum_required(VERSION 3.25)

set(wrong "")
file(GLOB_RECURSE headers RELATIVE ${root}/include/tenure ${root}/include/tenure/*.hpp)
list(FILTER headers EXCLUDE REGEX "^detail/|(^|/)impl/|^version[.]hpp$")
foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    if(folder AND EXISTS ${root}/include/tenure/${folder}.hpp)
        continue()
    endif()
    file(STRINGS ${root}/include/tenure/${header} first LIMIT_COUNT 1 REGEX "^ *# *include")
    if(NOT first STREQUAL "#include <tenure/version.hpp>")
        string(APPEND wrong "  ${header}\n")
    endif()
endforeach()
if(wrong)
    message(FATAL_ERROR "these do not include <tenure/version.hpp> first:\n${wrong}")
endif()
