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

# What everything that includes MLIR's headers needs; a precompiled header
# halves the time of a file.
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
    if(NOT TARGET kerf_pch)
      file(WRITE ${PROJECT_BINARY_DIR}/pch.cpp "")
      add_library(kerf_pch OBJECT ${PROJECT_BINARY_DIR}/pch.cpp)
      target_link_libraries(kerf_pch PUBLIC kerf_options)
      target_include_directories(kerf_pch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
      target_compile_definitions(kerf_pch PUBLIC ${LLVM_DEFINITIONS_LIST})
      target_compile_options(kerf_pch PRIVATE -fno-exceptions)
      if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        target_compile_options(kerf_pch PUBLIC "SHELL:-Xclang -fno-pch-timestamp")
      endif()
      target_precompile_headers(kerf_pch PRIVATE
        <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/Dialect.h>
        <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h> <mlir/Dialect/Func/IR/FuncOps.h>
        <mlir/Interfaces/SideEffectInterfaces.h> <mlir/IR/OpImplementation.h>)
    endif()
    if(ARG_WITHOUT_MLIR)
      # No precompiled header: inline functions of it would need MLIR's library.
    elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # The header is compiled with -fPIC; executables would take -fPIE.
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE")
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        target_compile_options(${target} PRIVATE -fPIC)
      endif()
      target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
      target_precompile_headers(${target} REUSE_FROM kerf_pch)
    endif()
  endif()
endfunction()

# kerf_add_library(NAME SOURCES a.cpp ... [LINK KerfOther ...] [DEPENDS tablegen ...])
# A static library of the compiler. WITHOUT_MLIR: programs link it with LLVM alone.
function(kerf_add_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS;WITHOUT_MLIR" "" "SOURCES;LINK;DEPENDS" ${ARGN})
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
  cmake_parse_arguments(ARG "EXCEPTIONS" "" "SOURCES;LINK;DEPENDS" ${ARGN})
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
  kerf_add_library(Kerf${name} ${exc} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} DEPENDS ${depends} KerfDialectsIncGen)
endfunction()

# kerf_add_tool(NAME SOURCES ... LINK ...): an executable of the compiler.
function(kerf_add_tool name)
  cmake_parse_arguments(ARG "EXCEPTIONS" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  kerf_compiler_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  add_dependencies(${name} KerfDialectsIncGen)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# kerf_add_unittest(NAME SOURCES ... LINK ...): a GoogleTest binary whose name
# ends in Tests, run by lit (and ctest) from the build folder's unittests/. COMPILER links MLIR.
function(kerf_add_unittest name)
  cmake_parse_arguments(ARG "COMPILER;EXCEPTIONS" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_COMPILER)
    kerf_compiler_options(${name})
    add_dependencies(${name} KerfDialectsIncGen)
    target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM GTest::gtest_main GTest::gmock)
  else()
    target_link_libraries(${name} PRIVATE kerf_options ${ARG_LINK} GTest::gtest_main GTest::gmock)
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
