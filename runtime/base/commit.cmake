# Run at each build: writes the header TO with the commit of the tree SOURCE and
# the text LLVM, and leaves it alone if it says so already.
find_program(GIT git)
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Sources that were unpacked inside another project's tree have no commit.
  cmake_path(COMPARE "${top}" EQUAL "${SOURCE}" isOurs)
  if(isOurs)
    execute_process(
      COMMAND ${GIT} --no-optional-locks -C ${SOURCE} describe --always --dirty
              --abbrev=12 --exclude=*
      OUTPUT_VARIABLE described RESULT_VARIABLE failed
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(commit ${described})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${TO} CONTENT
"#define CLEAVE_COMMIT \"${commit}\"
#define CLEAVE_LLVM \"${LLVM}\"
")
