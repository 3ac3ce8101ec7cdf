#!/bin/bash
# Looks for data races between a rank's threads with ThreadSanitizer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/setup.sh

usage() {
  cat <<'END'
usage: test/runtime/thread_sanitizer.sh [COMMAND...]

Builds the runtime and its tests with ThreadSanitizer, into build-tsan/. Then runs
COMMAND, a test of test/tools, with executables that have this runtime: a race fails
them. Without COMMAND: the tests of communicators, executor and watchdog, and a
sample of pipelines with streams.
Needs build/, which ./check makes. Kernels that are generated are not looked into:
of these, streams and waits are proven when a program is loaded.

  test/runtime/thread_sanitizer.sh python3 -B test/tools/resume_test.py
END
}
case ${1-} in
  -h | --help) usage; exit 0 ;;
  -*) usage >&2; exit 1 ;;
esac

cleave_configure build-tsan -DCLEAVE_SANITIZE=thread
tests=(CommTests ExecutorTests WatchTests)
nice ninja -C build-tsan "${tests[@]}" cleave_runtime

# The compiler as it is, beside the runtime's archive as it is wanted here.
tools=$PWD/build-tsan/tools
mkdir -p "$tools/bin" "$tools/lib" "$tools/path"
cp build/bin/cleave* "$tools/bin"
cp build-tsan/lib/libcleave_runtime.a "$tools/lib"
printf '#!/bin/sh\nexec clang++-22 -fsanitize=thread "$@"\n' > "$tools/path/c++"
chmod +x "$tools/path/c++"
export CLEAVE_TOOLS=$tools/bin PATH=$tools/path:$PATH TSAN_OPTIONS=halt_on_error=1
# Open MPI takes locks of its own in several orders, which is reported too.
unset CLEAVE_MPIRUN

if [ $# -gt 0 ]; then
  exec "$@"
fi
for test in "${tests[@]}"; do
  "build-tsan/test/bin/$test" --gtest_brief=1
done
CLEAVE_LAYOUTS=${CLEAVE_LAYOUTS-51} python3 -B test/tools/pipeline_test.py
