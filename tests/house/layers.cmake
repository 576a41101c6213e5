# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The layers of layers.txt: their names, lowest first, and layer_of(header result), which gives the rank of a header's,
# or "".
set(names "")
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/layers.txt lines REGEX "^[^#]")
foreach(line IN LISTS lines)
    string(REGEX MATCHALL "[^ ]+" words "${line}")
    list(POP_FRONT words name)
    list(APPEND names ${name})
    list(TRANSFORM words REPLACE "[.]" "[.]")
    list(TRANSFORM words REPLACE "[*][*]" ".+")
    list(TRANSFORM words REPLACE "[*]" "[^/]*")
    list(JOIN words "|" pattern)
    set(pattern_${name} "^(${pattern})$")
endforeach()

function(layer_of header result)
    set(rank 0)
    foreach(name IN LISTS names)
        if(header MATCHES "${pattern_${name}}")
            set(${result} ${rank} PARENT_SCOPE)
            return()
        endif()
        math(EXPR rank "${rank} + 1")
    endforeach()
    set(${result} "" PARENT_SCOPE)
endfunction()
