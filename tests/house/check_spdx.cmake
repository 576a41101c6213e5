# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -P this: every source file starts with the two SPDX lines, after any #! line.
cmake_minimum_required(VERSION 3.25)

set(folders include tests examples bench fuzz cmake share .ci)
list(TRANSFORM folders PREPEND ${root}/)
list(TRANSFORM folders APPEND /*)
file(GLOB_RECURSE files RELATIVE ${root} ${folders})
list(FILTER files INCLUDE REGEX "([.](hpp|cpp|h|c|cl|cu|cmake|py|sh)|CMakeLists[.]txt|/run)$")
list(APPEND files CMakeLists.txt dev .gitignore .clang-format .clang-tidy)

set(mark "[/#]+ SPDX-")
set(lines "${mark}FileCopyrightText: 2026 The tenure authors\n${mark}License-Identifier: BSL-1[.]0\n")
set(wrong "")
foreach(file IN LISTS files)
    file(READ ${root}/${file} head LIMIT 300)
    if(NOT head MATCHES "^(#![^\n]*\n)?${lines}")
        string(APPEND wrong "  ${file}\n")
    endif()
endforeach()
if(wrong)
    message(FATAL_ERROR "these files do not start with the two SPDX lines:\n${wrong}")
endif()
