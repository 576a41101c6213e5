# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: the headers of the core lead to no feature's folder, header-only too.
cmake_minimum_required(VERSION 3.25)

set(todo batch_scope.hpp handle.hpp registry.hpp)
set(seen ${todo})
set(wrong "")
while(todo)
    list(POP_FRONT todo header)
    file(STRINGS ${root}/include/tenure/${header} lines REGEX "^#include <tenure/[^ ]*>")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^#include <tenure/([^>]+)>.*" "\\1" other "${line}")
        if(other MATCHES "^detail/(background|buffers|checkpoints|inspect|listing|paging|sharing|timing|uses|whole)/")
            string(APPEND wrong "  ${header} includes ${other}\n")
        elseif(NOT other IN_LIST seen)
            list(APPEND seen ${other})
            list(APPEND todo ${other})
        endif()
    endforeach()
endwhile()
if(wrong)
    message(FATAL_ERROR "the core includes features:\n${wrong}")
endif()
