# Sourced by ./check and ./quickstart: installs what is missing, configures.

# What a build and a test need beside Debian 12's base system.
cleave_packages=(
  # Compilers and build tools.
  clang-22 lld-22 g++ cmake ninja-build ccache
  # MLIR and LLVM; mlir-tblgen, FileCheck and lit; runtimes of the sanitizers.
  llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools libclang-rt-22-dev
  # Libraries: JSON, program format, command lines, allocator; MPI's header and
  # launcher.
  nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libcli11-dev
  libmimalloc-dev libopenmpi-dev openmpi-bin
  # Tests, benchmarks, formatting.
  libgtest-dev libbenchmark-dev clang-format-22 clang-tidy-22 python3
  python3-jsonschema
)

cleave_fail() {
  echo "error: $*" >&2
  exit 1
}

# Writes the packages that are not installed, one a line.
cleave_missing() {
  local package status
  for package in "${cleave_packages[@]}"; do
    # dpkg-query fails on a package that it never heard of.
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) ||
      status=
    [ "$status" = installed ] || echo "$package"
  done
}

# Installs the missing packages from Debian's own repositories; quiet and quick
# when there are none.
cleave_install() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
    cleave_fail "this is not Debian: install by hand: ${cleave_packages[*]}"
  local missing
  mapfile -t missing < <(cleave_missing)
  [ ${#missing[@]} -gt 0 ] || return 0
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      cleave_fail "neither root nor sudo: run as root: apt-get install" \
                  "${missing[*]}"
    root=(sudo)
  fi
  echo "== installing ${#missing[@]} packages: ${missing[*]}"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
             -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  "${apt[@]}" update </dev/null >/dev/null ||
    cleave_fail "apt-get update failed"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null \
    >/dev/null ||
    cleave_fail "apt-get could not install ${missing[*]}; LLVM 22 is in" \
                "bookworm-security: is it among apt's sources?"
}

# One compiler cache in the tree, which the precompiled header does not defeat.
export CCACHE_DIR=${CCACHE_DIR:-$PWD/.ccache}
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# cleave_configure FOLDER [options]: the project in FOLDER with clang and lld.
cleave_configure() {
  local folder=$1
  shift
  cmake -G Ninja -S . -B "$folder" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
    -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    --log-level=WARNING "$@"
}
