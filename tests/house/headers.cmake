# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Header-only has bugs of its own: a missing include, a missing `inline`, no guard, an order that matters. One
# program shows all four: each header is a translation unit, in which it comes first and twice; two more include
# everything, forwards and backwards; all are linked together.
set(root ${PROJECT_SOURCE_DIR}/include)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp)
list(SORT headers)
set(dir ${CMAKE_CURRENT_BINARY_DIR}/house/headers)

set(forwards "")
set(backwards "")
set(units "")
foreach(header IN LISTS headers)
    string(REPLACE / . unit ${header})
    file(CONFIGURE OUTPUT ${dir}/${unit}.cpp CONTENT "#include <${header}>\n#include <${header}>\n")
    list(APPEND units ${dir}/${unit}.cpp)
    string(APPEND forwards "#include <${header}>\n")
    string(PREPEND backwards "#include <${header}>\n")
endforeach()
file(CONFIGURE OUTPUT ${dir}/forwards.cpp CONTENT "${forwards}")
file(CONFIGURE OUTPUT ${dir}/backwards.cpp CONTENT "${backwards}\nint main() {}\n")

add_executable(headers ${units} ${dir}/forwards.cpp ${dir}/backwards.cpp)
target_link_libraries(headers PRIVATE tenure_strict)
target_compile_options(headers PRIVATE -O0)  # it is the reading that counts
add_test(NAME headers COMMAND headers)
