# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# tenure::compiled, over the headers of LIBRARY: for programs of more than a few sources, each of which compiles in a
# tenth of the time. Built with the flags of the project that links it, and only if one does.
function(tenure_add_compiled source library)
    add_library(tenure_compiled STATIC EXCLUDE_FROM_ALL ${source})
    add_library(tenure::compiled ALIAS tenure_compiled)
    target_compile_definitions(tenure_compiled PUBLIC TENURE_SEPARATE)
    set_target_properties(tenure_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)  # for plugins, too
    target_link_libraries(tenure_compiled PUBLIC ${library})
endfunction()
