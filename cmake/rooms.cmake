# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# A room is a static library with position independent code; the shared library and the tests link rooms.

add_library(hocket_flags INTERFACE)
target_compile_options(hocket_flags INTERFACE -Wall -Wextra -Wpedantic $<$<COMPILE_LANGUAGE:CXX>:-Wconversion;-Wshadow>)
target_include_directories(hocket_flags INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(hocket_flags INTERFACE fmt::fmt Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Clang blames us for the deprecated get_temporary_buffer inside libstdc++'s own stable_sort.
  target_compile_options(hocket_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 finds overlaps in libstdc++'s own std::string (GCC bug 105651).
  target_compile_options(hocket_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(HOCKET_WERROR)
  target_compile_options(hocket_flags INTERFACE -Werror)
endif()
if(HOCKET_SANITIZE)
  # Everywhere, the compiled-in packages' headers included: half a sanitized program reports nonsense. Compile time counts
  # here, speed does not.
  add_compile_options(-fsanitize=${HOCKET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
  if(HOCKET_SANITIZE MATCHES "address")
    # Who goes there dies by AddressSanitizer; looking before is a sixth of the time that rooms take to compile.
    add_compile_options(-fno-sanitize=null,object-size)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # Programs in C may pass any number where an enum is expected, which is refused; and libraries that are loaded at
      # run time may declare their functions' arguments in other words than their headers do.
      add_compile_options(-fno-sanitize=enum,function)
    endif()
  endif()
  add_link_options(-fsanitize=${HOCKET_SANITIZE})
endif()

# Half the time of a build goes into the headers that nearly all sources include.
option(HOCKET_PRECOMPILE "Compile the commonest headers once, not for tests alone" OFF)
set(hocket_common_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint>
  <cstdlib> <cstring> <deque> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string>
  <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# hocket_share_headers(KIND TARGET <header>...): these are compiled once, for the first target of its kind, and are in every
# source of the others too. That hides from compilers who forgot one; tests/layering/includes_test.py finds it.
function(hocket_share_headers kind target)
  if(NOT HOCKET_PRECOMPILE AND NOT kind STREQUAL "test")
    return()
  endif()
  get_property(first GLOBAL PROPERTY hocket_first_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY hocket_first_${kind} ${target})
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 forgets which of them are the system's, in which it finds what is not there.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow)
  endif()
endfunction()

# hocket_room(NAME SOURCES a.cc b.cc [KNOWS rooms or packages])
function(hocket_room name)
  cmake_parse_arguments(room "" "" "SOURCES;KNOWS" ${ARGN})
  add_library(hocket_${name} STATIC ${room_SOURCES})
  target_link_libraries(hocket_${name} PUBLIC hocket_flags ${room_KNOWS})
  hocket_share_headers(room hocket_${name} ${hocket_common_headers})
endfunction()

# All that `./dev asan` and `./dev tsan` run, and so all that they build.
add_custom_target(sanitized_tests)

# Seconds after which a test is said to hang. Sanitizers make programs several times slower.
function(hocket_timeout variable)
  set(seconds ${${variable}})
  if(NOT seconds)
    set(seconds 300)
  endif()
  if(HOCKET_SANITIZE)
    math(EXPR seconds "3 * ${seconds}")
  endif()
  set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

# hocket_test(NAME SOURCES a_test.cc [KNOWS rooms] [LABELS labels] [TIMEOUT seconds] [SERIAL]): one GoogleTest program,
# one ctest entry. SERIAL: runs alone, because it drives several ranks or measures time. Labels:
#   sanitize    also runs under ASan+UBSan and under TSan
#   one_thread  has nothing that TSan could find
#   slow        not in `./dev unit`
#   soak        in `./dev soak` only
function(hocket_test name)
  cmake_parse_arguments(test "SERIAL" "TIMEOUT" "SOURCES;KNOWS;LABELS" ${ARGN})
  hocket_timeout(test_TIMEOUT)
  add_executable(${name} ${test_SOURCES})
  target_link_libraries(${name} PRIVATE hocket_flags ${test_KNOWS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)  # the rooms have to be fast, and tests soon compiled
  hocket_share_headers(test ${name} ${hocket_common_headers} <gmock/gmock.h> <gtest/gtest.h>)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}" RUN_SERIAL "${test_SERIAL}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml")
  if("sanitize" IN_LIST test_LABELS AND NOT (HOCKET_SANITIZE STREQUAL "thread" AND "one_thread" IN_LIST test_LABELS))
    add_dependencies(sanitized_tests ${name})
  endif()
endfunction()

# hocket_test_again(NAME TEST [FILTER gtest filter] [TIMEOUT s] [LABELS ...] [SERIAL] ENVIRONMENT A=1 ...): the program of a test
# once more, under other circumstances.
function(hocket_test_again name test)
  cmake_parse_arguments(again "SERIAL" "FILTER;TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  hocket_timeout(again_TIMEOUT)
  if(NOT again_FILTER)
    set(again_FILTER *)
  endif()
  add_test(NAME ${name} COMMAND ${test} --gtest_filter=${again_FILTER})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${again_TIMEOUT} LABELS "${again_LABELS}" RUN_SERIAL "${again_SERIAL}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml;${again_ENVIRONMENT}")
endfunction()

# hocket_fuzzer(NAME SOURCES a_fuzzer.cc [KNOWS rooms]): one libFuzzer program; its seeds lie in tests/fuzz/seeds/NAME. In a
# build that is not for fuzzing: a test that goes through these seeds.
function(hocket_fuzzer name)
  cmake_parse_arguments(fuzzer "" "" "SOURCES;KNOWS" ${ARGN})
  if(NOT HOCKET_BUILD_FUZZERS)
    add_executable(${name}_replay ${fuzzer_SOURCES})
    target_link_libraries(${name}_replay PRIVATE hocket_flags hocket_replay ${fuzzer_KNOWS})
    add_test(NAME ${name}_replay COMMAND ${name}_replay ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name})
    set_tests_properties(${name}_replay PROPERTIES TIMEOUT 300)
    return()
  endif()
  add_executable(${name} ${fuzzer_SOURCES})
  target_link_libraries(${name} PRIVATE hocket_flags ${fuzzer_KNOWS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()
