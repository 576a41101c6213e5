# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Toolchain of the presets built with clang: the newest clang++ here that is at least 16. (Plain clang++ is 14 on
# Debian 12, which lacks too much of C++20.)
find_program(CMAKE_CXX_COMPILER
    NAMES clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++ NO_CACHE)
if(CMAKE_CXX_COMPILER)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -dumpversion OUTPUT_VARIABLE clang_version)
endif()
if(NOT CMAKE_CXX_COMPILER OR clang_version VERSION_LESS 16)
    message(FATAL_ERROR "no clang++ >= 16 found: apt install clang-19 libclang-rt-19-dev (Debian 12, Ubuntu 24.04)")
endif()
