# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# What the documents show, compiles. Every ```cpp block of README.md and docs/*.md becomes a source file:
#   - a block with `int main` is a program; it is built, and run as a test;
#   - any other is the body of a function, its `#` lines moved to the top; <tenure/tenure.hpp> is included for it.
# A comment before a block, unseen by readers, helps where it cannot stand alone:
#     <!-- snippet: preamble
#     struct frontier { int start; };          goes before the function
#     -->
#     <!-- snippet: file -->                   not a body: declarations, as a file has them
# What is not meant to compile is no ```cpp block: use ```c++ or ```text.

include(${CMAKE_CURRENT_LIST_DIR}/extract_snippets.cmake)

file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/docs/*.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${documents})
set(snippets "")
foreach(document IN LISTS documents)
    extract_snippets(${document} ${CMAKE_CURRENT_BINARY_DIR}/house/snippets snippets)
endforeach()
list(GET snippets 0 first_example)  # README.md's

set(parts ${snippets})
list(FILTER parts EXCLUDE REGEX "_program[.]cpp$")
if(parts)
    add_library(snippets OBJECT ${parts})
    target_link_libraries(snippets PRIVATE tenure_strict)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # as for tests: each has it
        target_precompile_headers(snippets PRIVATE <tenure/tenure.hpp>)
    endif()
    # On the sources, not the target: there it would come before -Wall, which for clang undoes it.
    set_source_files_properties(${parts} PROPERTIES COMPILE_OPTIONS -Wno-unused)
endif()
list(FILTER snippets INCLUDE REGEX "_program[.]cpp$")
foreach(source IN LISTS snippets)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "_program$" "" name snippet_${name})
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE tenure_strict)
    add_test(NAME ${name} COMMAND ${name})
endforeach()
