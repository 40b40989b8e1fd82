#!/usr/bin/env bash
# test_python.sh [PYTEST ARGUMENT...]: builds the wheel of the Python package, installs it into an
# environment of its own, build/python/venv, and runs tests/python there. Needs scripts/setup.sh test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The libraries compiled for the wheel are those of build/release, flag by flag, so that the compiler
# cache has them.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
list=scripts/requirements/python.txt
folder=build/python
venv=$folder/venv
log=$folder/build.log
mkdir -p "$folder"

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

if ! cmp -s "$list" "$venv/.installed"; then
  printf 'Making the Python environment %s: %s (3 GB with torch)\n' "$venv" "$list"
  .venv/bin/python -m venv --clear "$venv"
  pip install --quiet --no-deps --only-binary :all: -r "$list"
  cp "$list" "$venv/.installed"
fi

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

# Away from the sources, so that the installed package is what is imported.
tests=$PWD/tests/python
cd "$folder"
exec venv/bin/python -m pytest -p no:cacheprovider "$tests" "$@"
