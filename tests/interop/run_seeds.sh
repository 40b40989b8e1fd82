#!/usr/bin/env bash
# run_seeds.sh SIMRUN EXPECTED [OPTIONS] PROGRAM ARGUMENTS...: runs a program in the simulator with
# every check on, for three seeds: three orders of warps and of asynchronous work. Each time it must
# exit with 0 and print a match of the regular expression EXPECTED, and no line that tells of a
# failure. OPTIONS are simrun's.
set -euo pipefail

simrun=$1
expected=$2
shift 2
for seed in 0 1 2; do
  status=0
  output=$("$simrun" --check all --seed "$seed" "$@" 2>&1) || status=$?
  printf '%s\n' "--- seed $seed, exit code $status" "$output"
  if [[ $status -ne 0 ]] || ! grep -qE "$expected" <<<"$output" ||
    grep -qiE 'fail(ed|ure)|incorrect|mismatch|cuda error' <<<"$output"; then
    printf 'run_seeds.sh: seed %s: failed: %s\n' "$seed" "$*"
    exit 1
  fi
done
