# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Under valgrind a raw pointer into what is gone is reported, and nothing else is.
find_program(TENURE_VALGRIND valgrind)
mark_as_advanced(TENURE_VALGRIND)

set(why_not "")
if(TENURE_SANITIZE)
    set(why_not "valgrind and a sanitizer do not go together")
elseif(NOT TENURE_VALGRIND)
    set(why_not "no valgrind here: apt install valgrind")
endif()

if(NOT why_not)
    add_executable(valgrind_target ${CMAKE_CURRENT_LIST_DIR}/valgrind_target.cpp)
    target_link_libraries(valgrind_target PRIVATE tenure_strict)
endif()
foreach(read none ended freed large)
    if(why_not)
        add_test(NAME valgrind.${read} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${why_not}")
        set_tests_properties(valgrind.${read} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
    else()
        add_test(NAME valgrind.${read}
            COMMAND ${TENURE_VALGRIND} --quiet --error-exitcode=9 $<TARGET_FILE:valgrind_target> ${read})
        if(NOT read STREQUAL none)
            set_tests_properties(valgrind.${read} PROPERTIES PASS_REGULAR_EXPRESSION "Invalid read of size [14]")
        endif()
    endif()
endforeach()
