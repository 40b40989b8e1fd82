#!/usr/bin/env bash
# fuzz.sh SECONDS: the differential fuzz tests of build/release for SECONDS each, then every
# libFuzzer program of build/fuzz for SECONDS. Found inputs stay in build/fuzz/corpus/; an input
# that crashes a program is written to build/fuzz/crashes/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=$1
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  printf 'fuzz.sh: FUZZ_SECONDS = %s: must be a whole number of seconds above 0\n' "$seconds" >&2
  exit 1
fi

printf '\n== Differential fuzz: fast against reference, %s s a test\n' "$seconds"
# Not by way of ctest, whose tests have a time limit.
mapfile -t tests < <(find build/release/tests/fuzz -maxdepth 1 -type f -executable -name '*_fuzz_test' |
  sort)
if [[ ${#tests[@]} -eq 0 ]]; then
  printf 'fuzz.sh: no differential fuzz test in build/release/tests/fuzz\n' >&2
  exit 1
fi
for test in "${tests[@]}"; do
  MPFA_FUZZ_SECONDS=$seconds "$test"
done

mapfile -t programs < <(find build/fuzz/tests/fuzz -maxdepth 1 -type f -executable -name '*_fuzz' |
  sort)
if [[ ${#programs[@]} -eq 0 ]]; then
  printf 'fuzz.sh: no libFuzzer program in build/fuzz/tests/fuzz\n' >&2
  exit 1
fi
mkdir -p build/fuzz/crashes
for program in "${programs[@]}"; do
  name=$(basename "$program")
  printf '\n== %s, %s s\n' "$name" "$seconds"
  folders=("build/fuzz/corpus/$name")
  mkdir -p "${folders[0]}"
  seeds=tests/fuzz/corpus/$name
  [[ -d $seeds ]] && folders+=("$seeds")
  "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix=build/fuzz/crashes/ "${folders[@]}"
done
printf '\nFuzzing found nothing.\n'
