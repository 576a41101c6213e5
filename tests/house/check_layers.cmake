# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: every header is in a layer of layers.txt and includes nothing of a higher one.
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/layers.cmake)

set(wrong "")
file(GLOB_RECURSE headers RELATIVE ${root}/include/tenure ${root}/include/tenure/*.[hi]pp)
foreach(header IN LISTS headers)
    layer_of(${header} mine)
    if(mine STREQUAL "")
        string(APPEND wrong "  ${header} is in no layer: give it its place in tests/house/layers.txt\n")
        continue()
    endif()
    list(GET names ${mine} my_layer)
    file(STRINGS ${root}/include/tenure/${header} lines REGEX "^ *# *include *[<\"]")
    foreach(line IN LISTS lines)
        if(line MATCHES "\"")
            string(APPEND wrong "  ${header}: ${line}: write <tenure/...>\n")
        elseif(line MATCHES "<tenure/([^>]+)>")
            set(other ${CMAKE_MATCH_1})
            layer_of(${other} theirs)
            if(NOT theirs STREQUAL "" AND theirs GREATER mine)
                list(GET names ${theirs} layer)
                string(APPEND wrong "  ${header} (${my_layer}) includes ${other}, of a higher layer (${layer})\n")
            endif()
        endif()
    endforeach()
endforeach()
if(wrong)
    message(FATAL_ERROR "layers, lowest first: ${names}\n${wrong}")
endif()
