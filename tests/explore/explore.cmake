# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Tests of threads under a scheduler of our own: schedule.hpp. Needs clang, whose ThreadSanitizer can be told to
# instrument atomic operations and nothing else.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64")
    message(FATAL_ERROR "tenure: the explorer of schedules needs clang on x86-64: ./dev explore")
endif()
set(TENURE_SCHEDULES 20 CACHE STRING "Schedules in which each test of the explorer runs")

add_library(schedule STATIC explore/schedule.cpp explore/main.cpp)
target_link_libraries(schedule PUBLIC doctest::doctest)
target_compile_features(schedule PUBLIC cxx_std_20)

# explore(NAME SOURCE [STEPS]): a program whose random tests do so many steps a schedule.
function(explore name source steps)
    add_executable(explore_${name} ${source})
    target_include_directories(explore_${name} PRIVATE ${tests})
    target_compile_definitions(explore_${name} PRIVATE TENURE_EXPLORE TENURE_SANITIZED=1 TENURE_TESTS="${tests}")
    target_compile_options(explore_${name} PRIVATE -fsanitize=thread "SHELL:-mllvm -tsan-instrument-memory-accesses=0"
        "SHELL:-mllvm -tsan-instrument-func-entry-exit=0" "SHELL:-mllvm -tsan-instrument-memintrinsics=0")
    target_link_libraries(explore_${name} PRIVATE schedule tenure_strict)
    add_test(NAME explore.${name} COMMAND explore_${name})
    set_tests_properties(explore.${name} PROPERTIES TIMEOUT 1200
        ENVIRONMENT "TENURE_SCHEDULES=${TENURE_SCHEDULES};TENURE_STEPS=${steps}")
endfunction()

explore(races explore/races_test.cpp 0)
explore(mix explore/mix_test.cpp 600)
