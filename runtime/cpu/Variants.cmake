# The flags of each variant of the kernels.

# Unoptimised intrinsics are a hundred times slower: -O3 whatever the build.
# -Wno-psabi: no vector crosses a call between variants. g++ 12 warns of its own
# AVX-512 header's deliberately undefined registers.
set(cleave_portable -O3 -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND cleave_portable -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
set(cleave_avx2 ${cleave_portable} -mavx2 -mfma)
set(cleave_avx512 ${cleave_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512)
# They take minutes to compile with these, and their source is that of the others,
# which are.
if(CLEAVE_SANITIZE MATCHES "address")
  list(APPEND cleave_avx512 -fno-sanitize=all)
endif()
set(cleave_avx512bf16 ${cleave_avx512} -mavx512bf16)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(cleave_x86 TRUE)
endif()

function(cleave_set_variant source)
  # A precompiled header would be for another instruction set.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ARGN}"
                              SKIP_PRECOMPILE_HEADERS ON)
endfunction()
