#!/usr/bin/env bash
# python_package.sh LIST...: builds the wheel of the Python package (build/python/dist) and installs it
# into an environment of its own, build/python/venv, with the pinned packages of
# scripts/requirements/python.txt and of each LIST there (model, lm_eval). Needs scripts/setup.sh demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The libraries compiled for the wheel are those of build/release, flag by flag, so that the compiler
# cache has them.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
requirements=scripts/requirements
folder=build/python
venv=$folder/venv
log=$folder/build.log
mkdir -p "$folder"

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

# Installs a list that the environment lacks, or has in another state.
install_list() {
  local list=$requirements/$1.txt
  cmp -s "$list" "$venv/.installed-$1" && return
  printf 'Installing the packages of %s\n' "$list"
  # Some come as sources (pure Python), which the pinned setuptools builds.
  pip install --quiet --no-deps --no-build-isolation -r "$list"
  cp "$list" "$venv/.installed-$1"
}

if ! cmp -s "$requirements/python.txt" "$venv/.installed"; then
  printf 'Making the Python environment %s: %s (3 GB with torch)\n' "$venv" "$requirements/python.txt"
  .venv/bin/python -m venv --clear "$venv"
  pip install --quiet --no-deps --only-binary :all: -r "$requirements/python.txt"
  cp "$requirements/python.txt" "$venv/.installed"
fi
for name in "$@"; do install_list "$name"; done

printf 'Building the wheel (log: %s)\n' "$log"
rm -rf "$folder/dist"
headers=$(.venv/bin/python -m tvm_ffi.config --includedir)
if ! pip wheel --no-build-isolation --no-deps --wheel-dir "$folder/dist" --verbose \
  -C build-dir="$folder/wheel" -C cmake.define.MPFA_WERROR=ON \
  -C cmake.define.MPFA_DLPACK_INCLUDE_DIR="$headers" . >"$log" 2>&1; then
  tail -n 60 "$log" >&2
  exit 1
fi
pip install --quiet --no-deps --force-reinstall "$folder"/dist/mpfa-*.whl
