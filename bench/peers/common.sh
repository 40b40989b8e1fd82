# shellcheck shell=bash
# What the build scripts of the peers share; they source it and set `out`, the folder to build in.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
flags=()     # of every compilation
commands=()  # compilations to be run
objects=()   # what they make, to be linked

skip() {
  echo "$(basename "$0"): $1; nothing is built" >&2
  exit 0
}

find_package() {  # the folder of a Python package
  python3 -c 'import importlib.util, pathlib, sys
spec = importlib.util.find_spec(sys.argv[1])
print(pathlib.Path(spec.origin).parent if spec else "")' "$1"
}

find_dlpack() {  # DLPACK: the folder of dlpack/dlpack.h
  if [[ -z ${DLPACK:-} ]]; then
    for DLPACK in "$root"/.venv/lib/python3*/site-packages/tvm_ffi/include \
      "$(find_package tvm_ffi)/include"; do
      [[ -f $DLPACK/dlpack/dlpack.h ]] && break
    done
  fi
  [[ -f $DLPACK/dlpack/dlpack.h ]] || skip "dlpack/dlpack.h is not in '$DLPACK' (set DLPACK)"
}

add_object() {  # NAME SOURCE FLAGS...: a compilation to be run
  objects+=("$out/objects/$1.o")
  commands+=("$(printf '%q ' "$nvcc" "${flags[@]}" "${@:3}" -c "$2" -o "$out/objects/$1.o")")
}

add_harness() {  # mpfa's timing
  add_object gpu "$root/tools/bench/gpu.cc"
  add_object sm_clock "$root/tools/bench/sm_clock.cc"
  add_object clock_kernel "$root/tools/bench/clock_kernel.cu"
  add_object device "$root/src/cuda/device.cc"
}

run_commands() {
  printf '%s\0' "${commands[@]}" | xargs -0 -P "${JOBS:-2}" -I{} bash -c '{}'
}

link_program() {  # NAME LIBRARIES...: from the objects; beside it what it needs to run elsewhere
  # shellcheck disable=SC2016  # the loader expands $ORIGIN
  "$nvcc" -cudart shared -Xlinker=-s -Xlinker=-rpath,'$ORIGIN' "${objects[@]}" "${@:2}" -o "$out/$1"
  rm -r "$out/objects"
  cp -L "$(dirname "$nvcc")/../lib64/libcudart.so.13" "$out/"
}

list_built() {
  echo "built in $out:"
  find "$out" -type f -printf '%f %kK\n'
}
