#!/usr/bin/env bash
# build_flashinfer.sh OUT [FLASHINFER]: compiles FlashInfer's decode kernels and the program that times
# them into the folder OUT, which can then be copied to a machine without a compiler.
#
# FLASHINFER is the folder that holds include/flashinfer and csrc/xqa: a checkout, or flashinfer/data of
# the wheel. Without it, the wheel that python3 finds. Environment: NVCC (nvcc), ARCH (90a), JOBS (2),
# XQA ("GROUP:PAGE:HEAD_DIM ...": what XQA is compiled for; empty for none), DLPACK (the folder of
# dlpack/dlpack.h).
set -euo pipefail

if [[ $# -lt 1 || $# -gt 2 ]]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
out=$1
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
arch=${ARCH:-90a}
# Those of the suites of mpfa bench.
xqa=${XQA-"4:64:128 5:64:128 1:64:128 8:64:128 4:16:128 4:64:64"}

[[ -x $nvcc ]] || skip "there is no nvcc"
package=$(find_package flashinfer)
flashinfer=${2:-${package:+$package/data}}
get="pip install --no-deps flashinfer-python==0.7.4"
[[ -n $flashinfer ]] || skip "FlashInfer is not installed ($get)"
[[ -f $flashinfer/include/flashinfer/attention/prefill.cuh ]] ||
  skip "FlashInfer's sources are not in '$flashinfer' ($get)"
find_dlpack

mkdir -p "$out/objects"
# The flags of FlashInfer's own build (jit/core.py).
flags=(-O3 -DNDEBUG -std=c++20 -use_fast_math --expt-relaxed-constexpr -cudart shared
  "-gencode=arch=compute_$arch,code=sm_$arch" -Xcompiler=-fPIC
  -DFLASHINFER_ENABLE_F16 -DFLASHINFER_ENABLE_BF16 -DFLASHINFER_ENABLE_FP8_E4M3
  -DFLASHINFER_ENABLE_FP8_E5M2 -DFLASHINFER_ENABLE_FP8_E8M0 -DFLASHINFER_ENABLE_FP4_E2M1
  "-I$here" "-I$root/tools" "-I$root/src" "-I$root/include" "-isystem=$DLPACK"
  "-isystem=$flashinfer/include")
for cccl in libcudacxx/include cub thrust; do  # the wheel's, which is newer than that of CUDA 13.0
  if [[ -d $flashinfer/cccl/$cccl ]]; then flags+=("-I$flashinfer/cccl/$cccl"); fi
done

for cache in Bf16Cache E4m3Cache; do
  for head_dim in 64 128; do
    add_object "fa2_${cache}_$head_dim" "$here/fa2.cu" "-DPEER_CACHE=$cache" \
      "-DPEER_HEAD_DIM=$head_dim"
  done
done
add_object fill "$here/fill.cu"
add_object main "$here/flashinfer_decode.cc"
add_object xqa_kernel "$here/xqa_kernel.cc"
add_harness
for config in $xqa; do
  IFS=: read -r group page head_dim <<<"$config"
  for cache in bf16:0 e4m3:2; do
    commands+=("$(printf '%q ' "$nvcc" "${flags[@]}" -w -shared -Xcompiler=-fvisibility=hidden \
      -DBEAM_WIDTH=1 -DUSE_INPUT_KV=0 -DUSE_CUSTOM_BARRIER=1 -DMLA_WRAPPER=0 -DUSE_SM90_MHA=1 \
      -DSLIDING_WINDOW=0 -DLOW_PREC_OUTPUT=0 -DSPEC_DEC=0 -DINPUT_FP16=0 -DDTYPE=__nv_bfloat16 \
      "-DCACHE_ELEM_ENUM=${cache#*:}" "-DTOKENS_PER_PAGE=$page" "-DHEAD_ELEMS=$head_dim" \
      "-DHEAD_GRP_SIZE=$group" "-I$flashinfer/csrc/xqa" "$here/xqa.cu" \
      "$flashinfer/csrc/xqa/mha.cu" "$flashinfer/csrc/xqa/mha_sm90.cu" \
      "$flashinfer/csrc/xqa/tensorMap.cpp" -lcuda \
      -o "$out/libxqa_${cache%:*}_g${group}_p${page}_d$head_dim.so")")
  done
done
run_commands
link_program flashinfer_decode -ldl
cp "$here/decode_flashinfer.py" "$here/peers.py" "$out/"
list_built
