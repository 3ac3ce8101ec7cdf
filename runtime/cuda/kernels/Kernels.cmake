# Compiles the runtime's own CUDA kernels to PTX, and where there is a ptxas, to
# machine code of sm_90 also. Needs clang, and nothing of CUDA. Sets
# cleave_cuda_kernel_sources: what a library adds to its sources to have them.
set(cleave_cuda_kernels ${CMAKE_CURRENT_LIST_DIR})
cmake_path(SET cleave_cuda_root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../..)
set(cleave_cuda_out ${CMAKE_CURRENT_BINARY_DIR}/kernels)

# The compiler itself where it is clang, or else one beside it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CLEAVE_CUDA_CLANG ${CMAKE_CXX_COMPILER})
else()
  cmake_path(GET CMAKE_CXX_COMPILER PARENT_PATH folder)
  find_program(CLEAVE_CUDA_CLANG NAMES clang++-22 clang++ HINTS ${folder})
endif()
if(CLEAVE_CUDA_CLANG)
  execute_process(COMMAND ${CLEAVE_CUDA_CLANG} --print-targets
                  OUTPUT_VARIABLE targets ERROR_QUIET)
  if(NOT targets MATCHES "nvptx64")
    set(CLEAVE_CUDA_CLANG "")
  endif()
endif()
# In the order of emit::findPtxas.
find_program(CLEAVE_CUDA_PTXAS NAMES $ENV{CLEAVE_PTXAS} ptxas
             HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)

# One that is too old for these kernels counts as none.
set(cleave_cuda_ptxas ${CLEAVE_CUDA_PTXAS})
if(CLEAVE_CUDA_PTXAS)
  set(probe ${cleave_cuda_out}/Probe)
  file(WRITE ${probe}.ptx ".version 7.8\n.target sm_90\n.address_size 64\n")
  execute_process(
    COMMAND ${CLEAVE_CUDA_PTXAS} -arch=sm_90 -o ${probe}.cubin ${probe}.ptx
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    message(STATUS "${CLEAVE_CUDA_PTXAS} is too old for sm_90: the runtime has "
                   "its CUDA kernels as PTX only")
    set(cleave_cuda_ptxas "")
  endif()
endif()

set(images "")
set(ptx "")
set(cubin "")
if(CLEAVE_CUDA_CLANG)
  set(ptx ${cleave_cuda_out}/Kernels.ptx)
  # PTX 7.8 is the first with sm_90. Products and sums stay apart unless the
  # source says fma. The path is to none of CUDA that may be installed.
  add_custom_command(OUTPUT ${ptx}
    COMMAND ${CLEAVE_CUDA_CLANG} -x cuda --cuda-device-only
            --cuda-gpu-arch=sm_90 --cuda-path=/nonexistent -nocudainc
            -nocudalib -Xclang -target-feature -Xclang +ptx78 -std=c++20 -O3
            -ffp-contract=off -Wall -Wextra -I${cleave_cuda_root}
            -MD -MT ${ptx} -MF ${ptx}.d -S -o ${ptx}
            ${cleave_cuda_kernels}/Kernels.cu
    DEPENDS ${cleave_cuda_kernels}/Kernels.cu
    DEPFILE ${ptx}.d
    COMMENT "Compiling CUDA kernels"
    VERBATIM)
  list(APPEND images ${ptx})
  if(cleave_cuda_ptxas)
    set(cubin ${cleave_cuda_out}/Kernels.cubin)
    add_custom_command(OUTPUT ${cubin}
      COMMAND ${cleave_cuda_ptxas} -arch=sm_90 -o ${cubin} ${ptx}
      DEPENDS ${ptx}
      COMMENT "Assembling CUDA kernels"
      VERBATIM)
    list(APPEND images ${cubin})
  endif()
else()
  message(STATUS "No clang for NVIDIA's GPUs: the runtime has no CUDA kernels")
endif()

# cleave_cuda_image(SYMBOL FILE END): assembly that defines SYMBOL, the bytes of
# FILE with END behind them, and SYMBOL_bytes.
function(cleave_cuda_image symbol file end)
  set(bytes "${end}")
  if(file)
    set(bytes ".incbin \\\"${file}\\\"\\n${end}")
  endif()
  set(text "asm(\".pushsection .rodata, \\\"a\\\"\\n.balign 64\\n\"
    \".globl ${symbol}\\n${symbol}:\\n${bytes}\\n\"
    \"0:\\n.balign 8\\n\"
    \".globl ${symbol}_bytes\\n${symbol}_bytes:\\n.quad 0b - ${symbol}\\n\"
    \".popsection\\n\");\n")
  set(${symbol} "${text}" PARENT_SCOPE)
endfunction()
cleave_cuda_image(cleave_kernel_ptx "${ptx}" ".byte 0")
cleave_cuda_image(cleave_kernel_cubin "${cubin}" "")
file(GENERATE OUTPUT ${cleave_cuda_out}/Images.cpp
     CONTENT "// What runtime/cuda/kernels/Images.h declares.
${cleave_kernel_ptx}${cleave_kernel_cubin}")
set_source_files_properties(${cleave_cuda_out}/Images.cpp PROPERTIES
                            OBJECT_DEPENDS "${images}"
                            SKIP_PRECOMPILE_HEADERS ON)

set(cleave_cuda_kernel_sources ${cleave_cuda_kernels}/Launches.cpp
    ${cleave_cuda_out}/Images.cpp)
