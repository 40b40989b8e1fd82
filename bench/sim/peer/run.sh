#!/usr/bin/env bash
# Speed of this simulator next to GPGPU-Sim's functional mode, on the two kernels of kernels.ptx.
#
#   bench/sim/peer/run.sh GPGPU_SIM_SOURCE WORK [BUILD]
#
# GPGPU_SIM_SOURCE: a checkout of gpgpu-sim/gpgpu-sim_distribution (docs/perf/sim.md names the
# commit). WORK: a folder for its build. BUILD: this project's (build/release). Needs bison, flex,
# makedepend (xutils-dev), zlib's headers and pip: GPGPU-Sim knows CUDA up to 11, so that headers and
# ptxas of 11.8 are taken from NVIDIA's wheels.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
source=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
build=$(cd "${3:-$root/build/release}" && pwd)
cuda=$work/cuda
sim=$work/gpgpu-sim

# A toolkit as GPGPU-Sim looks for one. Its nvcc only says its version, its cuobjdump hands out
# kernels.ptx.
if [ ! -d "$cuda" ]; then
  python3 -m pip download -q --no-deps -d "$work/wheels" \
    nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-nvcc-cu11==11.8.89
  for wheel in "$work"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/unpacked"; done
  mkdir -p "$cuda/bin" "$cuda/include"
  cp -r "$work"/unpacked/nvidia/cuda_{runtime,nvcc}/include/. "$cuda/include"
  cp "$work/unpacked/nvidia/cuda_nvcc/bin/ptxas" "$cuda/bin"
  printf '#!/bin/sh\necho "Cuda compilation tools, release 11.1, V11.1.74"\n' >"$cuda/bin/nvcc"
  cat >"$cuda/bin/cuobjdump" <<END
#!/bin/sh
case \$1 in
  -lptx) echo "PTX file    1: kernels.1.sm_70.ptx" ;;
  -xptx) cp $here/kernels.ptx "\$2" ;;
esac
END
  chmod +x "$cuda"/bin/*
fi

# Two things that today's tools need: bison 3.8 writes comments behind its token numbers, and GCC 12
# makes a function without its return statement run on.
if [ ! -d "$sim" ]; then
  cp -r "$source" "$sim"
  # shellcheck disable=SC2016  # make's variables, not the shell's
  sed -i '/ifeq.*Linux/{n;s#cat \($(OUTPUT_DIR)/ptx.tab.h\) | grep "="#grep "^ *[A-Z0-9_]* = [0-9]*[, ]" \1 | sed "s:/\\*.*::;s/ *$$//"#}' \
    "$sim/src/cuda-sim/Makefile"
  sed -i 's/^  cudaConfigureCallInternal(gridDim, blockDim, sharedMem, stream);/  return &/;s/return   cuda/return cuda/' \
    "$sim/libcuda/cuda_runtime_api.cc"
fi
export CUDA_INSTALL_PATH=$cuda
export GPGPUSIM_ROOT=$sim GPGPUSIM_POWER_MODEL='' GPGPUSIM_SETUP_ENVIRONMENT_WAS_RUN=1
export GPGPUSIM_CONFIG=gcc/cuda-11010/release PATH=$cuda/bin:$PATH
if [ ! -e "$work/built" ]; then
  rm -rf "$sim/src/gpuwattch"
  sed -i 's/^gpgpusim: check_setup_environment check_power/gpgpusim:/' "$sim/Makefile"
  make -C "$sim" -j"$(nproc)" gpgpusim >"$work/build.log" 2>&1
  touch "$work/built"
fi
library=$(dirname "$(find "$sim/lib" -name libcudart.so | head -1)")

# The program is linked with a stub, so that it asks for libcudart.so.11.0: GPGPU-Sim reads its name.
mkdir -p "$work/run"
cd "$work/run"
printf 'void %s() {}\n' cudaLaunchKernel cudaDeviceSynchronize cudaMalloc cudaMemcpy \
  __cudaRegisterFatBinary __cudaRegisterFunction __cudaPushCallConfiguration >stub.c
gcc -shared -fPIC -Wl,-soname,libcudart.so.11.0 stub.c -o libstub.so
g++ -O2 -I"$cuda/include" "$here/gpgpu_sim_host.cc" -o gpgpu_sim_host libstub.so
cp "$sim"/configs/tested-cfgs/SM7_QV100/* .
PTX_SIM_MODE_FUNC=1 PTX_SIM_USE_PTX_FILE=1.ptx PTX_SIM_KERNELFILE=_1.ptx CUOBJDUMP_SIM_FILE=none \
  LD_LIBRARY_PATH=$library taskset -c 0 ./gpgpu_sim_host >gpgpu_sim.log 2>&1
grep '^gpgpu-sim ' gpgpu_sim.log

g++ -std=c++20 -O2 -I"$root" -I"$root/include" "$here/mpfa_host.cc" -o mpfa_host \
  "$build/sim/libmpfa_sim.a" -lhwy -lpthread
taskset -c 0 ./mpfa_host "$here/kernels.ptx"
