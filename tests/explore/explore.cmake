# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Tests of threads under a scheduler of our own: schedule.hpp. Needs clang, whose ThreadSanitizer can be told to
# instrument atomic operations and nothing else.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64")
    message(FATAL_ERROR "tenure: the explorer of schedules needs clang on x86-64: ./dev explore")
endif()

add_library(schedule STATIC explore/schedule.cpp explore/main.cpp)
target_link_libraries(schedule PUBLIC doctest::doctest)
target_compile_features(schedule PUBLIC cxx_std_20)

file(CONFIGURE OUTPUT precompiled.cpp CONTENT "")
add_library(explored OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
target_include_directories(explored PUBLIC ${tests})
target_compile_definitions(explored PUBLIC TENURE_EXPLORE TENURE_SANITIZED=1 TENURE_TESTS="${tests}")
target_compile_options(explored PUBLIC -fsanitize=thread "SHELL:-mllvm -tsan-instrument-memory-accesses=0"
    "SHELL:-mllvm -tsan-instrument-func-entry-exit=0" "SHELL:-mllvm -tsan-instrument-memintrinsics=0")
target_link_libraries(explored PUBLIC schedule tenure_strict)
target_precompile_headers(explored PRIVATE <doctest/doctest.h> <tenure/tenure.hpp>)

# explore(SOURCE [STEPS]): a program whose random tests do so many steps a schedule.
function(explore source)
    cmake_path(GET source STEM name)
    string(REPLACE _test "" name ${name})
    add_executable(explore_${name} ${source})
    target_link_libraries(explore_${name} PRIVATE explored)
    target_precompile_headers(explore_${name} REUSE_FROM explored)
    add_test(NAME explore.${name} COMMAND explore_${name})
    set_tests_properties(explore.${name} PROPERTIES TIMEOUT 1200)
    if(ARGN)
        set_tests_properties(explore.${name} PROPERTIES ENVIRONMENT "TENURE_STEPS=${ARGN}")
    endif()
endfunction()

explore(explore/races_test.cpp)
explore(explore/mix_test.cpp 600)
explore(threads_test.cpp 600)
explore(share_test.cpp 600)
explore(pins_test.cpp)
explore(cancelled_buffers_test.cpp)
