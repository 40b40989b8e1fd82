#!/usr/bin/env bash
# build_fa3.sh OUT FLASH_ATTENTION: compiles FlashAttention-3's forward kernels and the program that
# times them into the folder OUT, which can then be copied to a machine without a compiler.
#
# FLASH_ATTENTION is a checkout of it, with its submodule csrc/cutlass. Environment: NVCC (nvcc), JOBS
# (2: each takes 2 GB of memory), CUTLASS (FLASH_ATTENTION/csrc/cutlass), DLPACK (the folder of
# dlpack/dlpack.h).
set -euo pipefail

if [[ $# -ne 2 ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
out=$1
hopper=$2/hopper
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
cutlass=${CUTLASS:-$2/csrc/cutlass}

[[ -x $nvcc ]] || skip "there is no nvcc"
[[ -f $hopper/flash_fwd_launch_template.h ]] ||
  skip "FlashAttention's sources are not in '$2' (bench/peers/README.md says how to get them)"
[[ -f $cutlass/include/cutlass/cutlass.h ]] ||
  skip "CUTLASS is not in '$cutlass' (git -C '$2' submodule update --init csrc/cutlass)"
find_dlpack

mkdir -p "$out/objects"
# Machine code for the card, PTX for mpfa's simulator.
target=("-gencode=arch=compute_90a,code=[sm_90a,compute_90a]" -cudart shared -Xcompiler=-fPIC)
# The flags of FA3's own build (hopper/setup.py, and torch's for every extension), and its own
# switches against what is not called.
kernel_flags=(-O3 -std=c++17 --use_fast_math -DNDEBUG -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED
  -DCUTLASS_ENABLE_GDC_FOR_SM90 -DCUTLASS_DEBUG_TRACE_LEVEL=0 --expt-relaxed-constexpr
  -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__
  -D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__
  -DFLASHATTENTION_DISABLE_PAGEDKV -DFLASHATTENTION_DISABLE_SPLIT
  -DFLASHATTENTION_DISABLE_APPENDKV -DFLASHATTENTION_DISABLE_LOCAL
  -DFLASHATTENTION_DISABLE_SOFTCAP)
flags=("${target[@]}" "${kernel_flags[@]}" -w "-I$hopper" "-I$cutlass/include")
for kernel in hdim{128,64}_{bf16,e4m3}{,_packgqa}; do
  add_object "$kernel" "$hopper/instantiations/flash_fwd_${kernel}_sm90.cu"
done
add_object schedule "$hopper/flash_prepare_scheduler.cu"

flags=("${target[@]}" -O2 -std=c++20 "-I$here" "-I$root/tools" "-I$root/src" "-I$root/include"
  "-isystem=$DLPACK" "-isystem=$hopper" "-isystem=$cutlass/include")
add_harness
add_object compute_times "$root/tools/bench/compute_times.cc"
add_object fill "$here/fill.cu"
add_object prefill "$here/prefill.cc"
add_object prefill_error "$here/prefill_error.cu"
add_object fa3_forward "$here/fa3_forward.cc"
add_object main "$here/fa3_prefill.cc"
run_commands
link_program fa3_prefill
cp "$here/prefill_fa3.py" "$here/peers.py" "$out/"
list_built
