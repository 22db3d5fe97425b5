# SPDX-License-Identifier: Apache-2.0
# A room is a static library with position independent code; the shared library and the tests link rooms.

add_library(hocket_flags INTERFACE)
target_compile_options(hocket_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
target_include_directories(hocket_flags INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(hocket_flags INTERFACE fmt::fmt-header-only Threads::Threads)

# hocket_room(NAME SOURCES a.cc b.cc [KNOWS rooms or packages])
function(hocket_room name)
  cmake_parse_arguments(room "" "" "SOURCES;KNOWS" ${ARGN})
  add_library(hocket_${name} STATIC ${room_SOURCES})
  target_link_libraries(hocket_${name} PUBLIC hocket_flags ${room_KNOWS})
endfunction()

# hocket_test(NAME SOURCES a_test.cc [KNOWS rooms] [LABELS labels] [TIMEOUT seconds]): one GoogleTest program, one ctest entry.
function(hocket_test name)
  cmake_parse_arguments(test "" "TIMEOUT" "SOURCES;KNOWS;LABELS" ${ARGN})
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 300)
  endif()
  add_executable(${name} ${test_SOURCES})
  target_link_libraries(${name} PRIVATE hocket_flags ${test_KNOWS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}")
endfunction()
