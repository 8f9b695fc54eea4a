# SPDX-License-Identifier: Apache-2.0
# collage_cpp_tests: the layers that know no TVM (tvm_collage_core) and tests/cpp, one program.
# doctest's header is the system's, or lies in COLLAGE_DOCTEST_INCLUDE_DIR.

find_path(COLLAGE_DOCTEST_INCLUDE_DIR doctest/doctest.h)
if(NOT COLLAGE_DOCTEST_INCLUDE_DIR)
  message(FATAL_ERROR "doctest/doctest.h not found: install Debian's doctest-dev, "
                      "or pass -DCOLLAGE_DOCTEST_INCLUDE_DIR=<folder that has doctest/>.")
endif()

file(GLOB test_sources CONFIGURE_DEPENDS tests/cpp/*_test.cc)

if(NOT test_sources)
  message(STATUS "collage_cpp_tests: no tests/cpp/*_test.cc, left out")
  return()
endif()

# doctest wants one translation unit with its main function: written here, so that no test file is special.
set(main_source "${CMAKE_CURRENT_BINARY_DIR}/doctest_main.cc")
file(CONFIGURE OUTPUT "${main_source}" CONTENT
  "#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n")

# The core's objects are those of the library, and the program is built when it is asked for.
add_executable(collage_cpp_tests EXCLUDE_FROM_ALL ${test_sources} "${main_source}")
target_link_libraries(collage_cpp_tests PRIVATE tvm_collage_core)
target_include_directories(collage_cpp_tests PRIVATE "${COLLAGE_SOURCE_DIR}")
target_include_directories(collage_cpp_tests SYSTEM PRIVATE "${COLLAGE_DOCTEST_INCLUDE_DIR}")
target_compile_definitions(collage_cpp_tests PRIVATE
  COLLAGE_BORDER_SCHEMA="${COLLAGE_SOURCE_DIR}/src/relay/collage/graph/border.schema.json")
# A third less compile time; a failed check stops in a debugger two frames further up.
target_compile_definitions(collage_cpp_tests PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
# Tests of tables do little themselves, and their many checks take three times as long to optimise;
# not so those that compare with an oracle.
target_compile_options(collage_cpp_tests PRIVATE -O1)
set(table_tests ${test_sources})
list(FILTER table_tests EXCLUDE REGEX "search_|random_")
set_source_files_properties(${table_tests} PROPERTIES COMPILE_OPTIONS -O0)

enable_testing()
add_test(NAME collage_cpp_tests COMMAND collage_cpp_tests)
