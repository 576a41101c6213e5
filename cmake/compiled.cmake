# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# Over the headers of LIBRARY, for programs of more than a few sources, each of which compiles in a tenth of the time:
# tenure::compiled, and tenure::remote, which adds remote/client.hpp and remote/server.hpp. FOLDER has their sources.
# Built with the flags of the project that links them, and only if one does.
function(tenure_add_compiled folder library)
    foreach(name compiled remote)
        string(REPLACE compiled tenure source ${name})
        add_library(tenure_${name} STATIC EXCLUDE_FROM_ALL ${folder}/${source}.cpp)
        add_library(tenure::${name} ALIAS tenure_${name})
        set_target_properties(tenure_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)  # for plugins, too
    endforeach()
    target_compile_definitions(tenure_compiled PUBLIC TENURE_SEPARATE)
    target_link_libraries(tenure_compiled PUBLIC ${library})
    target_compile_definitions(tenure_remote PUBLIC TENURE_SEPARATE_REMOTE)
    target_link_libraries(tenure_remote PUBLIC tenure_compiled)
endfunction()
