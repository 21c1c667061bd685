# The few functions from which every target of Kerf is made. Nothing here sets a
# global flag: what a target needs hangs on the interface targets below.

add_library(kerf_options INTERFACE)
target_compile_options(kerf_options INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
if(KERF_SANITIZE)
  target_compile_options(kerf_options INTERFACE -fsanitize=${KERF_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(kerf_options INTERFACE -fsanitize=${KERF_SANITIZE})
endif()
# Coverage for libFuzzer; undefined behaviour and a bad index of the standard
# library end the process, so that they are found.
if(KERF_FUZZERS)
  target_compile_options(kerf_options INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined)
  target_compile_definitions(kerf_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()

# Sets of headers that are compiled once. A target names its set with PRECOMPILED
# (default: mlir); that is a matter of speed alone, each file includes what it
# needs, and CMAKE_DISABLE_PRECOMPILE_HEADERS shows that it does.
set(KERF_HEADERS_mlir
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/Dialect.h>
  <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Interfaces/SideEffectInterfaces.h> <mlir/IR/OpImplementation.h>)
set(KERF_HEADERS_nn ${KERF_HEADERS_mlir} <kerf/NN/NN.h>)
set(KERF_HEADERS_lower ${KERF_HEADERS_nn} <kerf/Exec/Exec.h>)
set(KERF_HEADERS_codegen ${KERF_HEADERS_lower}
  <llvm/IR/IRBuilder.h> <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/GPU/IR/GPUDialect.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>)
set(KERF_HEADERS_upstream ${KERF_HEADERS_mlir}
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Linalg/IR/Linalg.h> <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>)
set(KERF_HEADERS_tests ${KERF_HEADERS_lower} <gmock/gmock.h> <gtest/gtest.h>)
set(KERF_HEADERS_commands ${KERF_HEADERS_mlir} <kerf/Pipelines/Compilation.h> <CLI/CLI.hpp> <llvm/Support/JSON.h>)
set(KERF_HEADERS_runtime_tests <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> <string> <vector>)
# Nobody waits for a test's own code as one does for its compilation.
set(KERF_FLAGS_tests $<$<CONFIG:Release>:-O1>)
set(KERF_FLAGS_runtime_tests ${KERF_FLAGS_tests})

# kerf_precompile(TARGET SET [EXCEPTIONS]): the target's headers, from a set that
# is compiled for all targets that name it.
function(kerf_precompile target set)
  cmake_parse_arguments(SET "EXCEPTIONS" "" "" ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  set(pch kerf_pch_${set})
  if(NOT TARGET ${pch})
    file(WRITE ${PROJECT_BINARY_DIR}/${pch}.cpp "")
    add_library(${pch} OBJECT ${PROJECT_BINARY_DIR}/${pch}.cpp)
    target_link_libraries(${pch} PUBLIC kerf_options)
    if(set MATCHES "tests$") # macros as in what is compiled with these headers
      target_link_libraries(${pch} PUBLIC GTest::gtest)
    endif()
    foreach(dir ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
      target_include_directories(${pch} PUBLIC ${dir}/include ${dir}/dialects)
    endforeach()
    target_include_directories(${pch} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    target_compile_definitions(${pch} PUBLIC ${LLVM_DEFINITIONS_LIST})
    if(NOT SET_EXCEPTIONS)
      target_compile_options(${pch} PRIVATE -fno-exceptions)
    endif()
    target_compile_options(${pch} PUBLIC "SHELL:-Xclang -fno-pch-timestamp")
    target_compile_options(${pch} PRIVATE ${KERF_FLAGS_${set}})
    target_precompile_headers(${pch} PRIVATE ${KERF_HEADERS_${set}})
    if(TARGET KerfDialectsIncGen)
      add_dependencies(${pch} KerfDialectsIncGen)
    endif()
  endif()
  # The headers are compiled with -fPIC; executables would take -fPIE.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp" ${KERF_FLAGS_${set}})
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# What everything that includes MLIR's headers needs.
function(kerf_compiler_options target)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:kerf_options>)
  foreach(dir ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/dialects
      ${PROJECT_BINARY_DIR}/include ${PROJECT_BINARY_DIR}/dialects)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${dir}>)
  endforeach()
  # An installed library finds MLIR where KerfConfig.cmake does.
  foreach(dir ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${dir}>)
  endforeach()
  target_include_directories(${target} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_definitions(${target} PUBLIC ${LLVM_DEFINITIONS_LIST})
  if(NOT ARG_EXCEPTIONS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  endif()
  # Without MLIR: inline functions of the headers would need MLIR's library.
  if(NOT ARG_EXCEPTIONS AND NOT ARG_WITHOUT_MLIR)
    if(NOT ARG_PRECOMPILED)
      set(ARG_PRECOMPILED mlir)
    endif()
    kerf_precompile(${target} ${ARG_PRECOMPILED})
  endif()
endfunction()

# kerf_add_library(NAME SOURCES a.cpp ... [LINK KerfOther ...] [DEPENDS tablegen ...])
# A static library of the compiler. WITHOUT_MLIR: programs link it with LLVM alone.
# PRECOMPILED SET: see above.
function(kerf_add_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS;WITHOUT_MLIR" "PRECOMPILED" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  kerf_compiler_options(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# kerf_add_phase(NAME SOURCES ... LINK ...): the library KerfNAME of one phase,
# with the passes of include/kerf/NAME/Passes.td when that file is there.
function(kerf_add_phase name)
  cmake_parse_arguments(ARG "EXCEPTIONS" "PRECOMPILED" "SOURCES;LINK;DEPENDS" ${ARGN})
  set(td ${PROJECT_SOURCE_DIR}/include/kerf/${name}/Passes.td)
  set(depends ${ARG_DEPENDS})
  if(EXISTS ${td})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/kerf/${name})
    set(LLVM_TARGET_DEFINITIONS ${td})
    file(RELATIVE_PATH out ${CMAKE_CURRENT_BINARY_DIR} ${PROJECT_BINARY_DIR}/include/kerf/${name}/Passes.h.inc)
    mlir_tablegen(${out} -gen-pass-decls -name=Kerf${name} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR}/include)
    add_public_tablegen_target(Kerf${name}PassesIncGen)
    list(APPEND depends Kerf${name}PassesIncGen)
    set_property(GLOBAL APPEND PROPERTY KERF_PASS_TDS ${td})
  endif()
  set(exc)
  if(ARG_EXCEPTIONS)
    set(exc EXCEPTIONS)
  endif()
  if(ARG_PRECOMPILED)
    list(APPEND exc PRECOMPILED ${ARG_PRECOMPILED})
  endif()
  kerf_add_library(Kerf${name} ${exc} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} DEPENDS ${depends} KerfDialectsIncGen)
endfunction()

# kerf_add_tool(NAME SOURCES ... LINK ...): an executable of the compiler. MLIR_ARCHIVES: MLIR is linked in, since
# half of the time in which a short command starts goes into binding the symbols of libMLIR; such a tool loads no
# plugins. The archives are named by their files, as some of their targets ask for libMLIR beside them, and in an order
# that only lld does without; another linker gets libMLIR.
function(kerf_add_tool name)
  cmake_parse_arguments(ARG "EXCEPTIONS;MLIR_ARCHIVES" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  kerf_compiler_options(${name})
  set(mlir MLIR)
  if(ARG_MLIR_ARCHIVES AND CMAKE_EXE_LINKER_FLAGS MATCHES "lld")
    set(mlir)
    get_property(targets GLOBAL PROPERTY MLIR_ALL_LIBS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "STATIC_LIBRARY")
        list(APPEND mlir $<TARGET_FILE:${target}>)
      endif()
    endforeach()
    # All addresses are known when it is linked.
    target_link_options(${name} PRIVATE -no-pie)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINK} ${mlir} LLVM)
  add_dependencies(${name} KerfDialectsIncGen)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# kerf_add_unittest(NAME SOURCES ... LINK ...): a GoogleTest binary whose name
# ends in Tests, run by lit (and ctest) from the build folder's unittests/. COMPILER links MLIR.
function(kerf_add_unittest name)
  cmake_parse_arguments(ARG "COMPILER;EXCEPTIONS" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_COMPILER)
    set(ARG_PRECOMPILED tests)
    kerf_compiler_options(${name})
    add_dependencies(${name} KerfDialectsIncGen)
    target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM GTest::gtest_main GTest::gmock)
  else()
    target_link_libraries(${name} PRIVATE kerf_options ${ARG_LINK} GTest::gtest_main GTest::gmock)
    kerf_precompile(${name} runtime_tests EXCEPTIONS)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unittests)
  set_property(GLOBAL APPEND PROPERTY KERF_UNITTESTS ${name})
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# kerf_add_subdirectories(a b ...): those that have a CMakeLists.txt.
macro(kerf_add_subdirectories)
  foreach(dir ${ARGN})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt)
      add_subdirectory(${dir})
    endif()
  endforeach()
endmacro()

# kerf_install_completion(TOOL): what bash completes its command lines with,
# printed by the tool itself.
function(kerf_install_completion tool)
  set(file ${PROJECT_BINARY_DIR}/share/bash-completion/completions/${tool})
  add_custom_command(OUTPUT ${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/share/bash-completion/completions
    COMMAND ${tool} --bash-completion > ${file}
    DEPENDS ${tool} VERBATIM)
  add_custom_target(${tool}-completion ALL DEPENDS ${file})
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endfunction()
