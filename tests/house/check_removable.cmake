# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -Dcompiler=COMPILER -Dfolder=NAME -Dheader=NAME -Ddir=SCRATCH_DIR -P this: without a feature's
# folder in detail/, its header and the lines that include these, the rest builds and runs.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${dir})
file(COPY ${root}/include/tenure DESTINATION ${dir})
file(REMOVE_RECURSE ${dir}/tenure/detail/${folder})
file(REMOVE ${dir}/tenure/${header}.hpp ${dir}/tenure/impl/${header}.ipp)
foreach(all tenure.hpp src.hpp)
    file(READ ${dir}/tenure/${all} text)
    string(REGEX REPLACE "#include <tenure/(impl/)?${header}[.][hi]pp>\n" "" text "${text}")
    file(WRITE ${dir}/tenure/${all} "${text}")
endforeach()

set(parts ${root}/tests/house/modes)
execute_process(
    COMMAND ${compiler} -std=c++20 -O0 -I${dir} -pthread ${parts}/one.cpp ${parts}/two.cpp -o ${dir}/rest
    COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${dir}/rest COMMAND_ERROR_IS_FATAL ANY)
