# Thin wrappers, so that a folder's CMakeLists.txt says only what is in it.

# Precompiled headers, of what most sources of a kind include; clang only, since
# g++'s cost 600 MB and are slower to read than the headers are to parse.
# cleave_add_pch(NAME FLAG LIBRARY ...): cmake/NAME.h, for targets that are built
# with FLAG and link the libraries.
function(cleave_add_pch name flag)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE ${flag})
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${name}.h)
endfunction()
cleave_add_pch(pch_mlir -fPIC)
cleave_add_pch(pch_tool -fPIE)
if(CLEAVE_TESTS)
  cleave_add_pch(pch_test -fPIE GTest::gtest)
endif()

function(cleave_use_pch target pch)
  if(TARGET ${pch})
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

# cleave_use_allocator(target): a tool with mimalloc in place of the C library's
# allocator, for LLVM's shared libraries as well: it is loaded before these and
# before the C library. Sanitizers have an allocator themselves.
if(NOT CLEAVE_SANITIZE)
  find_package(mimalloc REQUIRED)
endif()
function(cleave_use_allocator target)
  if(NOT CLEAVE_SANITIZE)
    target_link_libraries(${target} PRIVATE mimalloc)
    target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  endif()
endfunction()

# cleave_add_library(Name a.cpp b.cpp LINK Other ...): a room of lib/, plain C++.
function(cleave_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(Cleave${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(Cleave${name} PUBLIC ${ARG_LINK})
endfunction()

# cleave_embed(Name constant): the files data/FOLDER/* become part of the library,
# as the cleave::Catalog `constant`.
function(cleave_embed name constant)
  file(GLOB files CONFIGURE_DEPENDS
       RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/data data/*/*)
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/data/
       OUTPUT_VARIABLE paths)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${constant}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_CURRENT_SOURCE_DIR}/data
            "-DFILES=${files}" -DTO=${out} -DNAME=${constant}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/embed.cmake ${paths} VERBATIM)
  target_sources(Cleave${name} PRIVATE ${out})
endfunction()

# cleave_add_mlir_library(Name a.cpp LINK ... DEPENDS ...): code that includes
# MLIR; every one of them waits for all generated headers.
add_custom_target(cleave_headers)
function(cleave_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(Cleave${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  add_dependencies(Cleave${name} cleave_headers)
  target_link_libraries(Cleave${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  cleave_use_pch(Cleave${name} pch_mlir)
endfunction()

# cleave_tablegen(target out.inc -gen-x ... FROM file.td): one generated file.
function(cleave_tablegen out)
  cmake_parse_arguments(ARG "" "FROM" "" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${ARG_FROM})
  mlir_tablegen(${out} ${ARG_UNPARSED_ARGUMENTS}
                EXTRA_INCLUDES ${CMAKE_SOURCE_DIR})
  set(TABLEGEN_OUTPUT ${TABLEGEN_OUTPUT} PARENT_SCOPE)
endfunction()

# cleave_add_headers(Name): collects this folder's generated headers.
macro(cleave_add_headers name)
  add_public_tablegen_target(${name}Gen)
  add_dependencies(cleave_headers ${name}Gen)
endmacro()

# cleave_add_unittest(Name a.cpp LINK ...): one gtest binary, cases found late.
function(cleave_add_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  cleave_use_pch(${name} pch_test)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                        ${CMAKE_BINARY_DIR}/test/bin)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
