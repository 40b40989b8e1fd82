#!/usr/bin/env bash
# test_python.sh [PYTEST ARGUMENT...]: builds the wheel of the Python package, installs it into an
# environment of its own, build/python/venv, and runs tests/python there. Needs scripts/setup.sh test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/python_package.sh model lm_eval

# Away from the sources, so that the installed package is what is imported.
tests=$PWD/tests/python
cd build/python
exec venv/bin/python -m pytest -p no:cacheprovider "$tests" "$@"
