# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Dreadelf=READELF -Dlibrary=FILE -P this: the library, compiled with hidden visibility, has no variable of
# tenure's to itself, but for those named here.
cmake_minimum_required(VERSION 3.25)

set(own
    stays_mapped is_only_copy                                        # about the library itself
    reserved_at_start page_bytes largest_run under_valgrind others_can_be_made_to statuses  # the same everywhere
    on_fault pass_on 4save                                           # of one thread in one function, for one fault
    DW[.]ref)                                                        # the compiler's own

function(read result)
    execute_process(COMMAND ${readelf} -W ${ARGN} ${library} OUTPUT_VARIABLE out COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX REPLACE "[][;]" " " out "${out}")
    string(REPLACE "\n" ";" out "${out}")
    set(${result} "${out}" PARENT_SCOPE)
endfunction()

read(sections -S)
set(writable "")
foreach(line IN LISTS sections)
    if(line MATCHES "^ *([0-9]+) +[.](t?bss|t?data) ")
        list(APPEND writable ${CMAKE_MATCH_1})
    endif()
endforeach()
list(JOIN writable "|" writable)
list(JOIN own "|" own)

read(symbols -s)
set(shared 0)
set(wrong "")
foreach(line IN LISTS symbols)
    if(NOT line MATCHES " (OBJECT|TLS) +([A-Z]+) +([A-Z]+) +(${writable}) (.*6tenure.*)$")
        continue()
    endif()
    set(name ${CMAKE_MATCH_5})
    if(NOT CMAKE_MATCH_2 STREQUAL "LOCAL" AND CMAKE_MATCH_3 STREQUAL "DEFAULT")
        math(EXPR shared "${shared} + 1")
    elseif(NOT name MATCHES "${own}")
        string(APPEND wrong "  ${name}\n")
    endif()
endforeach()
if(wrong)
    message(FATAL_ERROR "${library} would have these to itself:\n${wrong}")
endif()
if(shared LESS 20)
    message(FATAL_ERROR "${library} shares no more than ${shared} variables: is it compiled with tenure?")
endif()
