#!/usr/bin/env bash
# configure.sh PRESET FOLDER: runs CMake for a preset. Its output goes to FOLDER/configure.log; what
# is left out of the build (no CUDA, say) is repeated here, and everything when it fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
log=$2/configure.log
mkdir -p "$2"
printf 'Configuring %s (log: %s)\n' "$2" "$log"
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  printf 'CMake failed for the preset %s. After an upgrade, try again after: make clean\n' "$preset" >&2
  exit 1
fi
grep -E '^(-- CUDA|CMake Warning)' "$log" || true
