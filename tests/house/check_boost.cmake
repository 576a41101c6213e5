# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: Boost is needed only by who includes asio.hpp or something of remote/.
cmake_minimum_required(VERSION 3.25)

set(wrong "")
file(GLOB_RECURSE headers RELATIVE ${root}/include/tenure ${root}/include/tenure/*.hpp)
list(FILTER headers EXCLUDE REGEX "^(asio|remote)/|^asio[.]hpp$")
list(LENGTH headers count)
if(count LESS 50)
    message(FATAL_ERROR "only ${count} headers found in ${root}/include/tenure")
endif()
foreach(header IN LISTS headers)
    file(STRINGS ${root}/include/tenure/${header} lines REGEX "^ *# *include *<(boost/|tenure/asio|tenure/remote/)")
    foreach(line IN LISTS lines)
        string(APPEND wrong "  ${header}: ${line}\n")
    endforeach()
endforeach()
if(wrong)
    message(FATAL_ERROR "these lead to Boost, and are not in asio/ or remote/:\n${wrong}")
endif()
