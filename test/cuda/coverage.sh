#!/bin/bash
# Says which lines of the GPU's runtime no test runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/setup.sh

usage() {
  cat <<'END'
usage: test/cuda/coverage.sh [COMMAND...]

Builds the runtime with clang's source-based coverage, and the tests of
runtime/cuda and runtime/device, into build-coverage/. Then runs these, and the
tests of test/tools that train on the simulated machine, with executables that
have this runtime; or else COMMAND, one of them. Prints, of each file of
runtime/cuda and runtime/device, the lines that nothing ran, and a summary.
Needs build/, which ./check makes. What runs on the GPU itself is not counted.

  test/cuda/coverage.sh python3 -B test/tools/cuda_errors_test.py
END
}
case ${1-} in
  -h | --help) usage; exit 0 ;;
  -*) usage >&2; exit 1 ;;
esac

# Counters are written as they go up, since a run whose GPU hangs ends at once.
cleave_configure build-coverage -DCMAKE_CXX_FLAGS="-fprofile-instr-generate \
-fcoverage-mapping -fprofile-continuous"
folders=(test/runtime/cuda test/runtime/device)
nice ninja -C build-coverage cleave_runtime "${folders[@]/%//all}"

# The compiler and the machine as they are, beside the runtime's archive as it
# is wanted here.
tools=$PWD/build-coverage/tools
mkdir -p "$tools/bin" "$tools/lib" "$tools/path"
cp build/bin/cleave* "$tools/bin"
ln -sf ../../lib/libcleave_runtime.a "$tools/lib"
ln -sfn "$PWD/build/test" "$tools/test"
printf '#!/bin/sh\nexec clang++-22 -fprofile-instr-generate "$@"\n' \
  > "$tools/path/c++"
chmod +x "$tools/path/c++"
export CLEAVE_TOOLS=$tools/bin PATH=$tools/path:$PATH
export CLEAVE_MPIRUN=${CLEAVE_MPIRUN-$(command -v mpirun.openmpi || true)}
profiles=$PWD/build-coverage/profiles
rm -rf "$profiles"
export LLVM_PROFILE_FILE="$profiles/%m%c.profraw"

failed=0
if [ $# -gt 0 ]; then
  "$@" || failed=1
else
  for folder in "${folders[@]}"; do
    ctest --test-dir "build-coverage/$folder" --output-on-failure || failed=1
  done
  for test in test/tools/{cuda*,nccl,tcp}_test.py; do
    echo "== $test"
    python3 -B "$test" || failed=1
  done
fi

merged=$profiles/merged.profdata
llvm-profdata-22 merge -sparse -o "$merged" "$profiles"/*.profraw
# llvm-cov reads no archives.
clang++-22 -shared -fuse-ld=lld -fprofile-instr-generate -Wl,--whole-archive \
  build-coverage/lib/libcleave_runtime.a -Wl,--no-whole-archive \
  -o "$tools/runtime.so"
coverage() {
  llvm-cov-22 "$@" "$tools/runtime.so" -instr-profile "$merged" \
    runtime/cuda runtime/device
}
# Of what llvm-cov shows, lines of "number|count|text": file names, and what has
# the count 0.
coverage show | awk -F'|' '
  /^\/.*:$/ { file = $0; next }
  $2 ~ /^ *0$/ { if (file) print "\n" file; file = ""
                 print $1 "|" substr($0, length($1) + length($2) + 3) }'
echo
coverage report
exit $failed
