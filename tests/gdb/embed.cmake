# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: detail/inspect/gdb.hpp has what share/gdb/tenure-gdb.py says; with -Dwrite=ON it will.
cmake_minimum_required(VERSION 3.25)

file(READ ${root}/share/gdb/tenure-gdb.py script)
if(script MATCHES "[\"\\]")
    message(FATAL_ERROR "tenure-gdb.py has a double quote or a backslash, which gdb.hpp would have to escape")
endif()
string(REGEX REPLACE "([^\n]*)\n" ".ascii \"\\1\\\\n\"\n" lines "${script}")
set(header [[
// SPDX-FileCopyrightText: 2026 The tenure authors
// SPDX-License-Identifier: BSL-1.0
#pragma once

// Made from share/gdb/tenure-gdb.py by tests/gdb/embed.cmake; a test compares them.
//
// The script that shows gdb handles and batches goes into every program that includes this, and takes no memory when
// that runs. gdb loads it from programs that it trusts: `add-auto-load-safe-path DIRECTORY` in ~/.gdbinit. Without it:
// -DTENURE_NO_GDB_SCRIPT.

#if defined(__ELF__) && !defined(TENURE_NO_GDB_SCRIPT)
asm(R"(
.pushsection ".debug_gdb_scripts", "MS", %progbits, 1
.byte 4
.ascii "gdb.inlined-script.tenure\n"
]])
string(APPEND header "${lines}" [[
.byte 0
.popsection
)");
#endif
]])

set(target ${root}/include/tenure/detail/inspect/gdb.hpp)
if(write)
    file(WRITE ${target} "${header}")
    return()
endif()
file(READ ${target} there)
if(NOT there STREQUAL header)
    message(FATAL_ERROR
        "gdb.hpp is not what tenure-gdb.py says: cmake -Droot=. -Dwrite=ON -P tests/gdb/embed.cmake")
endif()
