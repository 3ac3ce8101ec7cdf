# Lets what clang's sanitizers find end a program.
set(CLEAVE_SANITIZE "" CACHE STRING
    "Sanitizers to build with, as -fsanitize takes them: address,undefined or thread")
if(CLEAVE_SANITIZE)
  add_compile_options(-fsanitize=${CLEAVE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CLEAVE_SANITIZE})
endif()
