#!/usr/bin/env bash
# lint.sh [--jobs N]  checks everything that is checked without running the code; needs a build in
#                     build/release, which has the compile commands and the dependencies.
# lint.sh --format    formats C++ and Python files in place.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=$(nproc)
format=false
while [[ $# -gt 0 ]]; do
  case $1 in
    --jobs) jobs=$2; shift 2 ;;
    --format) format=true; shift ;;
    *) printf 'lint.sh: unknown argument %s\n' "$1" >&2; exit 2 ;;
  esac
done

# Prints the files of the project that match the patterns: tracked, and new but not ignored.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done
}

git rev-parse --is-inside-work-tree >/dev/null || exit 1
mapfile -t cpp < <(files '*.h' '*.cc' '*.cu' '*.cuh')
mapfile -t python < <(files '*.py')
mapfile -t shell < <(files '*.sh' .ci/run)

if $format; then
  clang-format-14 -i "${cpp[@]}"
  [[ ${#python[@]} -eq 0 ]] || .venv/bin/ruff format --quiet "${python[@]}"
  printf 'Formatted %d C++ and %d Python files.\n' "${#cpp[@]}" "${#python[@]}"
  exit 0
fi

failed=()

# check NAME HELP COMMAND...: all checks run, so that one run shows all there is to mend.
check() {
  local name=$1 help=$2
  shift 2
  if "$@"; then
    printf 'lint: %s: clean\n' "$name"
  else
    printf 'lint: %s: FAILED (%s)\n' "$name" "$help" >&2
    failed+=("$name")
  fi
}

# The ThreadSanitizer build understands oneTBB's tasks only through one header (see
# scripts/tsan_ignorelist.txt). Limits, arenas and queries of threads run no tasks of their own.
one_way_to_threads() {
  ! grep -nE '#include [<"](oneapi/)?tbb' "${cpp[@]}" /dev/null |
    grep -vE '^src/core/parallel\.h:|tbb/(global_control|info|task_arena)\.h'
}

# The README shows the core of examples/quickstart.cc, which the tests run: the same lines, less
# their indentation.
readme_example() {
  # shellcheck disable=SC2016  # the backquotes are Markdown's
  diff <(sed -n '/^```cpp$/,/^```$/{/^```/d;p;}' README.md) \
    <(sed -n '/^ *\/\/ \[readme\]$/,//{//d;p;}' examples/quickstart.cc | sed 's/^  //')
}

check "clang-format, ${#cpp[@]} files" 'mend with: make format' \
  clang-format-14 --dry-run -Werror "${cpp[@]}"
check 'oneTBB loops only in src/core/parallel.h' 'include core/parallel.h instead' one_way_to_threads
check 'the example in README.md' 'copy it from examples/quickstart.cc' readme_example
if [[ ${#python[@]} -gt 0 ]]; then
  check "ruff check, ${#python[@]} files" 'see the rules in ruff.toml' \
    .venv/bin/ruff check --quiet "${python[@]}"
  check "ruff format, ${#python[@]} files" 'mend with: make format' \
    .venv/bin/ruff format --quiet --check "${python[@]}"
fi
if command -v shellcheck >/dev/null; then
  check "shellcheck, ${#shell[@]} files" 'each message has its rule number' shellcheck "${shell[@]}"
else
  printf 'lint: shellcheck: not installed, left out\n'
fi
check 'clang-tidy' 'rules: .clang-tidy' \
  .venv/bin/python scripts/tidy.py --build build/release --jobs "$jobs"

if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'lint: failed:%s\n' "$(printf ' [%s]' "${failed[@]}")" >&2
  exit 1
fi
