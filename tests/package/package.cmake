# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# tests/package is somebody else's project. It is built and run against the installed package, then with this source
# tree as a folder of its own; either way it sees nothing of our build but what a user would.
if(NOT TENURE_INSTALL)
    return()
endif()
set(prefix ${CMAKE_CURRENT_BINARY_DIR}/package/prefix)

# From a tree with everything in it that is only configured: headers need no build.
set(unbuilt ${CMAKE_CURRENT_BINARY_DIR}/package/unbuilt)
add_test(NAME package.configure
    COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${unbuilt} -G ${CMAKE_GENERATOR}
        -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
add_test(NAME package.install COMMAND ${CMAKE_COMMAND} --install ${unbuilt} --prefix ${prefix})
set_tests_properties(package.install PROPERTIES DEPENDS package.configure)
set_tests_properties(package.configure package.install PROPERTIES FIXTURES_SETUP package)

function(add_package_test name)
    add_test(NAME package.${name}
        COMMAND ${CMAKE_CTEST_COMMAND}
            --build-and-test ${tests}/package ${CMAKE_CURRENT_BINARY_DIR}/package/${name}
            --build-generator ${CMAKE_GENERATOR}
            --build-project outsider
            --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DVERSION=${PROJECT_VERSION}
                -DLIBRARY=tenure::tenure ${ARGN}
            --test-command outsider)
endfunction()
add_package_test(find_package -DCMAKE_PREFIX_PATH=${prefix})
add_package_test(find_package_compiled -DCMAKE_PREFIX_PATH=${prefix} -DLIBRARY=tenure::remote)  # both, then
set_tests_properties(package.find_package package.find_package_compiled PROPERTIES FIXTURES_REQUIRED package)
add_package_test(add_subdirectory -DTENURE_SOURCE=${PROJECT_SOURCE_DIR} -DLIBRARY=tenure::compiled)
add_package_test(fetch_content -DTENURE_SOURCE=${PROJECT_SOURCE_DIR} -DTENURE_FETCH=ON)

# Somebody with a Boost that is too old, or with none: all but asio.hpp and remote/ is installed and found.
set(old_boost ${CMAKE_CURRENT_BINARY_DIR}/package/old_boost)
file(CONFIGURE OUTPUT ${old_boost}/boost/version.hpp CONTENT "#define BOOST_VERSION 107400\n")
set(with_old_boost -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON -Dtenure_boost_include=${old_boost})
set(boostless ${CMAKE_CURRENT_BINARY_DIR}/package/unbuilt_boostless)
add_test(NAME package.configure_boostless
    COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR} -B ${boostless} -G ${CMAKE_GENERATOR}
        -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} -DTENURE_BUILD_TESTS=OFF -DTENURE_BUILD_EXAMPLES=OFF
        ${with_old_boost})
add_test(NAME package.install_boostless COMMAND ${CMAKE_COMMAND} --install ${boostless} --prefix ${boostless}/prefix)
set_tests_properties(package.install_boostless PROPERTIES DEPENDS package.configure_boostless)
set_tests_properties(package.configure_boostless package.install_boostless PROPERTIES FIXTURES_SETUP boostless)
add_package_test(boostless -DCMAKE_PREFIX_PATH=${boostless}/prefix ${with_old_boost} -DOLD_BOOST=${old_boost})
set_tests_properties(package.boostless PROPERTIES FIXTURES_REQUIRED boostless)
