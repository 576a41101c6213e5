# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Programs and libraries that share one registry, or say at once that they cannot: each library and each program is
# compiled so that it shows nothing that it does not have to.
set(dir ${CMAKE_CURRENT_LIST_DIR})
if(TENURE_SANITIZE STREQUAL "thread" OR NOT TENURE_TEST_PROGRAMS)
    return()
endif()

function(hide target)
    target_link_libraries(${target} PRIVATE tenure_strict ${CMAKE_DL_LIBS})
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

foreach(which first second)
    add_library(plugin_${which} SHARED ${dir}/plugin.cpp)
    hide(plugin_${which})
endforeach()
# Programs that are linked to both know the second by another name. It is built in another way than the program.
target_link_libraries(plugin_second PRIVATE tenure_compiled)
target_compile_definitions(plugin_second PRIVATE TENURE_SECOND_PLUGIN)

function(add_host name)
    add_executable(${name} ${ARGN})
    hide(${name})
    target_compile_definitions(${name} PRIVATE
        PLUGIN_FIRST="$<TARGET_FILE:plugin_first>" PLUGIN_SECOND="$<TARGET_FILE:plugin_second>")
    add_dependencies(${name} plugin_first plugin_second)
endfunction()

foreach(how LOCAL GLOBAL)
    string(TOLOWER plugins_${how} name)
    add_host(${name} ${dir}/host.cpp)
    target_compile_definitions(${name} PRIVATE PLUGIN_FLAGS=RTLD_${how})
    target_link_libraries(${name} PRIVATE test_main)
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
    add_test(NAME ${name} COMMAND ${name})
endforeach()
add_host(plugins_linked ${dir}/host.cpp)
target_link_libraries(plugins_linked PRIVATE test_main plugin_first plugin_second)
add_test(NAME plugins_linked COMMAND plugins_linked)

# What cannot be shared ends the process when it is loaded, with a message.
function(add_refused_test name)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} "-Dsays=would each have batches and handles of their own"
        "-Dexits=Subprocess aborted" -P ${PROJECT_SOURCE_DIR}/examples/expect.cmake -- ${ARGN})
endfunction()
add_host(plugins_outsider ${dir}/outsider.cpp)
add_host(plugins_exported ${dir}/unexported.cpp)
add_host(plugins_unexported ${dir}/unexported.cpp)
set_target_properties(plugins_exported PROPERTIES ENABLE_EXPORTS ON)
add_test(NAME plugins.exported COMMAND plugins_exported plain)
add_refused_test(plugins.unexported $<TARGET_FILE:plugins_unexported> plain)
add_test(NAME plugins.outsider_global COMMAND plugins_outsider global)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # whose symbols are unique among libraries
    add_test(NAME plugins.outsider_local COMMAND plugins_outsider local)
else()
    add_refused_test(plugins.outsider_local $<TARGET_FILE:plugins_outsider> local)
endif()
if(NOT TENURE_SANITIZE)  # which refuses it itself
    add_refused_test(plugins.deepbind $<TARGET_FILE:plugins_exported> deepbind)
endif()

# Whatever a library has of its own is listed: what is not in the list should be TENURE_SHARED.
add_test(NAME plugins.shared
    COMMAND ${CMAKE_COMMAND} -Dreadelf=${CMAKE_READELF} -Dlibrary=$<TARGET_FILE:plugin_first> -P ${dir}/check_shared.cmake)
