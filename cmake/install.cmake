# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Nothing here depends on the machine, so all of it goes to share/.
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/tenure)

write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenure-config-version.cmake
    COMPATIBILITY SameMinorVersion  # below 1.0 a minor version may change the API
    ARCH_INDEPENDENT)

install(TARGETS tenure EXPORT tenure INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tenure NAMESPACE tenure:: FILE tenure-targets.cmake DESTINATION ${package_dir})
install(FILES
    cmake/tenure-config.cmake
    cmake/compiled.cmake
    cmake/dependencies.cmake
    ${PROJECT_BINARY_DIR}/tenure-config-version.cmake
    DESTINATION ${package_dir})
install(DIRECTORY include/tenure DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.[hi]pp")
install(FILES share/gdb/tenure-gdb.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tenure)  # programs carry it in them, too
install(FILES src/tenure.cpp src/remote.cpp src/tenure.cppm  # tenure::compiled, tenure::remote, the module
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tenure)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
