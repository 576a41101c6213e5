# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# The bench's own sources compile with g++, header-only and with our warnings, as ./dev bench builds them. They are only
# read: nothing is built. What needs a peer's library is left to ./dev bench.
find_path(tenure_benchmark_include benchmark/benchmark.h)
mark_as_advanced(tenure_benchmark_include)
if(NOT tenure_gcc OR NOT tenure_benchmark_include)
    message(NOTICE "house: without the bench's sources: apt install g++ libbenchmark-dev")
    return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp ${PROJECT_SOURCE_DIR}/bench/peers/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(callgrind|apr|foonathan|foreign|jemalloc|mimalloc|protobuf|talloc)[.]cpp$")
set(include_dirs $<TARGET_PROPERTY:test_main,INCLUDE_DIRECTORIES>)
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
foreach(source IN LISTS sources)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    add_test(NAME builds.${name}
        COMMAND ${tenure_gcc} -std=c++20 -O0 -fsyntax-only -Werror ${warnings} "-DTENURE_BENCH_COMPILER=\"\""
            -I${PROJECT_SOURCE_DIR}/bench "-I$<JOIN:${include_dirs},;-I>" ${source}
        COMMAND_EXPAND_LISTS)
endforeach()
