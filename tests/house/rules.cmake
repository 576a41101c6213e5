# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# What can be read off the sources without compiling them.
foreach(rule layers declared core first_include boost spdx)
    add_test(NAME ${rule}
        COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR} -P ${tests}/house/check_${rule}.cmake)
endforeach()

# Mutants that no longer apply find nothing. They are built and run by ./dev mutants.
find_program(tenure_git git)
mark_as_advanced(tenure_git)
if(tenure_git)
    add_test(NAME mutants COMMAND ${tests}/mutants/run --check)
endif()

# What README.md and docs/*.md tell to type. It builds the server, which takes half a minute: not part of ./dev test.
if(tenure_git AND TENURE_TEST_COMPILING)
    add_test(NAME docs.commands COMMAND ${tests}/house/commands ${CMAKE_CURRENT_BINARY_DIR}/house/commands)
    set_tests_properties(docs.commands PROPERTIES LABELS docs TIMEOUT 1200)
endif()
