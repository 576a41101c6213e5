# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# cmake -Droot=SOURCE_DIR -Dcompiler=CLANG -Ddir=SCRATCH_DIR -P this: a program that imports tenure is built and runs.
cmake_minimum_required(VERSION 3.25)

file(MAKE_DIRECTORY ${dir})
set(flags -std=c++20 -O0 -DTENURE_SEPARATE)
function(run)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${dir} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${compiler} ${flags} -I${root}/include --precompile ${root}/src/tenure.cppm -o tenure.pcm)
run(${compiler} ${flags} -c tenure.pcm -o module.o)
run(${compiler} ${flags} -I${root}/include -c ${root}/src/tenure.cpp -o rest.o)
run(${compiler} ${flags} -fmodule-file=tenure=tenure.pcm -c ${root}/tests/house/modes/importing.cpp -o importing.o)
run(${compiler} importing.o module.o rest.o -pthread -o importing)
run(./importing)
