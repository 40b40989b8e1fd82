#!/usr/bin/env bash
# check_spills.sh NVCC INCLUDES ARCH FILE...: compiles kernels to machine code for a GPU and fails if
# any of them keeps registers in memory.
set -euo pipefail

nvcc=$1
includes=$2
arch=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
for file in "$@"; do
  # shellcheck disable=SC2086  # includes are several words
  "$nvcc" -std=c++20 --expt-relaxed-constexpr $includes -gencode "arch=compute_$arch,code=sm_$arch" \
    -Xptxas -v -cubin -o "$folder/kernel.cubin" "$file" 2>"$folder/log" || {
    cat "$folder/log"
    exit 1
  }
  if ! grep -q 'bytes spill stores' "$folder/log"; then
    printf '%s, sm_%s: ptxas tells nothing of spills\n' "$(basename "$file")" "$arch"
    status=1
  elif grep 'bytes spill stores' "$folder/log" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
    printf '%s, sm_%s spills:\n' "$(basename "$file")" "$arch"
    grep -E 'spill|registers' "$folder/log"
    status=1
  else
    printf '%s, sm_%s: no spills\n' "$(basename "$file")" "$arch"
  fi
done
exit $status
