# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# nvml_test loads a library that answers as NVIDIA's does.
if(TARGET nvml_test)
    add_library(fake_nvml MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvml.cpp)
    target_link_libraries(fake_nvml PRIVATE tenure_strict)
    target_compile_definitions(nvml_test PRIVATE FAKE_NVML="$<TARGET_FILE:fake_nvml>")
    target_link_libraries(nvml_test PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(nvml_test fake_nvml)
endif()
