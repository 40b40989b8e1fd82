#!/usr/bin/env bash
# bench.sh [ARGS...]: runs every benchmark program of bench/ in build/release, with ARGS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t programs < <(find build/release/bench -maxdepth 1 -type f -executable | sort)
if [[ ${#programs[@]} -eq 0 ]]; then
  printf 'bench.sh: no benchmark program in build/release/bench\n' >&2
  exit 1
fi
for program in "${programs[@]}"; do
  printf '\n== %s\n' "$program"
  "$program" "$@"
done
