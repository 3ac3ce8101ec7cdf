#!/bin/bash
# Looks for bugs with clang-tidy, by the checks of .clang-tidy; a finding fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'END'
usage: cmake/tidy.sh [--list] [sample [N] | all | FILE...]

  sample    what a few minutes are enough for: those that are changed in the working
            tree and by the last commit, one part of 6 of lib/ and runtime/, and
            one of 16 of the others, which include MLIR and take longer. At the
            next commit it is another one. N: part N
  all       every source
  FILE...   these
--list writes which files they are, and does no more.
Needs build/, with its generated headers.
END
}

light_parts=6 heavy_parts=16
most_changed=8 # of the heavy: so that a commit of many files is not waited for

# sources FOLDER...; what a build need not have is left out.
sources() {
  find "$@" -name '*.cpp' ! -path 'runtime/cpu/variants/*' | LC_ALL=C sort
}
light() { sources lib runtime; }
heavy() { sources dialects passes tools; }

# What differs from the commit before the last; nothing where git knows none.
changed() {
  { git diff --name-only HEAD~1 || git diff --name-only HEAD; } 2>/dev/null
}

# part PARTS NUMBER: of the lines; neighbours are in different parts, so each has
# some of every folder.
part() {
  awk -v n="$1" -v i="$(($2 % $1))" 'NR % n == i'
}

# sample PART
sample() {
  { light | grep -Fx -f <(changed)
    heavy | grep -Fx -f <(changed) | head -n $most_changed
    light | part $light_parts "$1"
    heavy | part $heavy_parts "$1"
  } | LC_ALL=C sort -u
}

list=0
if [ "${1-}" = --list ]; then
  list=1
  shift
fi
case ${1-sample} in
  -h | --help) usage; exit 0 ;;
  sample)
    part=${2-$(git rev-list --count HEAD 2>/dev/null || echo 0)}
    mapfile -t files < <(sample "$part") ;;
  all) mapfile -t files < <(light; heavy) ;;
  -*) usage >&2; exit 1 ;;
  *) files=("$@") ;;
esac
if [ $list -eq 1 ]; then
  printf '%s\n' "${files[@]}"
  exit 0
fi
[ -f build/compile_commands.json ] || {
  echo "error: clang-tidy needs build/, which ./check makes" >&2
  exit 1
}

echo "clang-tidy: ${#files[@]} of $({ light; heavy; } | wc -l) sources"
found=$(printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 1 nice clang-tidy-22 -p build --quiet 2>/dev/null)
status=$?
[ -z "$found" ] || printf '%s\n' "$found" >&2
if [ $status -ne 0 ]; then
  echo "error: clang-tidy has found something; where it is wrong, say so by" \
       "// NOLINT(check): and the reason" >&2
  exit 1
fi
