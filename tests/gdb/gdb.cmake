# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# gdb shows handles and batches by the script that programs carry in them.
add_test(NAME gdb.embedded
    COMMAND ${CMAKE_COMMAND} -Droot=${PROJECT_SOURCE_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake)

find_program(TENURE_GDB gdb)
mark_as_advanced(TENURE_GDB)
if(TENURE_SANITIZE)
    set(why_not "what gdb shows does not depend on sanitizers")
elseif(NOT TENURE_GDB)
    set(why_not "no gdb here: apt install gdb")
else()
    set(why_not "")
    add_executable(gdb_target ${CMAKE_CURRENT_LIST_DIR}/gdb_target.cpp)
    target_link_libraries(gdb_target PRIVATE tenure_strict)
    target_compile_options(gdb_target PRIVATE -O0 -g)
endif()
if(why_not)
    add_test(NAME gdb.prints COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${why_not}")
else()
    add_test(NAME gdb.prints
        COMMAND ${CMAKE_COMMAND} -Dgdb=${TENURE_GDB} -Dtarget=$<TARGET_FILE:gdb_target>
            -P ${CMAKE_CURRENT_LIST_DIR}/run_gdb.cmake)
endif()
set_tests_properties(gdb.prints PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
