# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Dgdb=PROGRAM -Dtarget=PROGRAM -P this: gdb, which trusts the target's folder and was told nothing else, prints
# the variables of gdb_target.cpp as it should.
cmake_minimum_required(VERSION 3.25)

set(prints "")
set(expected "")
function(expect variable pattern)
    list(APPEND prints -ex "print ${variable}")
    list(APPEND expected "${pattern}")
    set(prints "${prints}" PARENT_SCOPE)
    set(expected "${expected}" PARENT_SCOPE)
endfunction()

set(alive "alive 0x[0-9a-f]+")
set(request "in batch 'request' #[0-9]+[.][0-9]+")
set(text "std::[^\n]*string[^\n]*")
expect(null "handle<int> null")
expect(ended "handle<int> stale 0x[0-9a-f]+")
expect(request "batch 'request' #[0-9]+[.][0-9]+, active, 7 objects, 200[0-9]+ bytes in use")
expect(nameless "batch #[0-9]+[.][0-9]+, active, 1 objects, 8 bytes in use")
expect(release_hold "detached batch 'let go' #[0-9]+[.][0-9]+, active, 1 objects, 8 bytes in use")
expect(detached "handle<int> ${alive} in batch 'let go' #[0-9]+[.][0-9]+ = {object = 5}")
expect(number "handle<int> ${alive} ${request} = {object = 42}")
expect(kept "handle<int> ${alive} ${request} = {object = 7}")
expect(text "handle<${text}> ${alive} ${request} = {object = [^\n]*kept text")
expect(freed "handle<${text}> stale 0x[0-9a-f]+")
expect(array "handle<int *..> ${alive} of length 3 ${request} = {.0. = 0, .1. = 0, .2. = 0}")
expect(large "handle<std::array<char, 200000[^\n]*>> ${alive} ${request}")
expect(adopted "handle<std::pair<int, int>> ${alive} ${request} = {object = {first = 3, second = 4}}")
expect(second "handle<[^\n]*other_base> ${alive} ${request} = {object = [^\n]*second = 2}}")
expect(unknown "handle<[^\n]*incomplete> null")
expect(over "batch 'over' #[0-9]+[.][0-9]+, done, 0 objects, 0 bytes in use")
expect(theirs "handle<int> ${alive} in batch #[0-9]+[.][0-9]+ = {object = 8}")
expect(reference "[^\n]*handle<int> ${alive} ${request} = {object = 42}")
expect(handles "{first = handle<int> ${alive} ${request} = {object = 42}, second = handle<${text}> stale 0x[0-9a-f]+}")

cmake_path(GET target PARENT_PATH folder)
execute_process(
    COMMAND ${gdb} -nx --batch -iex "add-auto-load-safe-path ${folder}"
        -ex "break look" -ex run -ex up ${prints} ${target}
    OUTPUT_VARIABLE output ERROR_VARIABLE errors)

if(errors MATCHES "ptrace: |personality: |Python scripting is not supported")
    message(NOTICE "skipped: gdb cannot do it here: ${errors}")
    return()
endif()
set(n 0)
foreach(pattern IN LISTS expected)
    math(EXPR n "${n} + 1")
    if(NOT output MATCHES "[$]${n} = ${pattern}")
        message(SEND_ERROR "${n}: not as expected: ${pattern}")
        set(failed TRUE)
    endif()
endforeach()
if(failed)
    message(FATAL_ERROR "${output}\n${errors}")
endif()
