#!/usr/bin/env bash
# Installs what a profile needs and this machine lacks: Debian packages through apt (as root or with
# sudo), Python packages into the private environment .venv. Each profile contains the one before:
#   demo   build the mpfa command and run the demo
#   test   build and run the tests, the sanitizers, the linters, the fuzzers and the benchmarks
#   dev    a debugger and valgrind
# Does nothing, quickly, when nothing is missing. MPFA_SYSTEM_PACKAGES=skip leaves apt alone, for
# systems whose packages you install yourself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

DEMO_PACKAGES=(g++ cmake ninja-build ccache libhwy-dev libtbb-dev libcli11-dev libfmt-dev
               nlohmann-json3-dev libeigen3-dev)
# llvm-14 has the symbolizer without which sanitizer reports of clang builds name no function. zstd and
# LZ4 are what nvcc compresses PTX with, for the simulator.
TEST_PACKAGES=(libgtest-dev libbenchmark-dev libzstd-dev liblz4-dev clang-14 clang-format-14
               clang-tidy-14 libclang-rt-14-dev llvm-14 shellcheck)
DEV_PACKAGES=(gdb valgrind)
# On Debian 12 the release fixes the versions; elsewhere these are the oldest that work.
MINIMUM_VERSIONS=('g++ 4:12' 'cmake 3.25' 'libhwy-dev 1.0.3' 'libtbb-dev 2021.8' 'libcli11-dev 2.1'
                  'libfmt-dev 9.1' 'nlohmann-json3-dev 3.11' 'libeigen3-dev 3.4')
REQUIREMENTS=scripts/requirements
LOG=build/setup.log

say() { printf 'setup: %s\n' "$*"; }
# fail LINE...: the first line says what is wrong, the others what to do.
fail() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  [[ $# -eq 0 ]] || printf 'setup: %s\n' "$@" >&2
  exit 1
}

# Runs a command with its output in the log. A failure shows the end of what the command printed.
logged() {
  printf '\n$ %s\n' "$*" >>"$LOG"
  local start
  start=$(wc -l <"$LOG")
  "$@" >>"$LOG" 2>&1 </dev/null && return 0
  printf 'setup: this failed: %s\n' "$*" >&2
  tail -n "+$((start + 1))" "$LOG" | tail -n 30 >&2
  printf 'setup: the whole log: %s\n' "$LOG" >&2
  return 1
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then env "$@"; else sudo env "$@"; fi
}

apt() {
  as_root DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 "$@"
}

# --- Debian packages --------------------------------------------------------------------------

# Prints those of the named packages that are not installed.
missing_packages() {
  local installed package
  # dpkg-query fails when it does not know a package; the ones it knows are printed all the same.
  # shellcheck disable=SC2016  # the ${} are dpkg-query's
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true)"
  for package in "$@"; do
    [[ $installed == *" installed=$package "* ]] || printf '%s\n' "$package"
  done
}

# Stops on systems that cannot work, before anything is installed.
check_release() {
  local release=unknown
  # shellcheck source=/dev/null
  [[ -r /etc/os-release ]] && release=$(. /etc/os-release && printf '%s %s' "$ID" "${VERSION_ID:-}")
  case $release in
    'debian 12') ;;
    'debian 11' | 'debian 10' | 'ubuntu 20.04' | 'ubuntu 22.04')
      fail "$release is too old: MpFA needs g++ 12, CMake 3.25, Highway 1.0.3 and Python 3.11." \
        "Debian 12, or a container of it, has all of these." ;;
    *) say "note: MpFA is tested on Debian 12; trying on $release." ;;
  esac
}

check_minimum_versions() {
  local entry package minimum version
  for entry in "${MINIMUM_VERSIONS[@]}"; do
    read -r package minimum <<<"$entry"
    # shellcheck disable=SC2016  # the ${} is dpkg-query's
    version=$(dpkg-query -W -f '${Version}' "$package")
    dpkg --compare-versions "$version" ge "$minimum" ||
      fail "$package is version $version here; MpFA needs $minimum or later."
  done
}

install_packages() {
  check_release
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and without root or sudo they cannot be installed: $*" \
      "Ask an administrator to run: apt-get install --no-install-recommends $*"
  fi
  say "installing $# packages with apt (a minute or so): $*"
  # A broken third-party source must not stop us when the packages can be had all the same.
  logged apt update || say "note: apt-get update failed; trying with the package lists at hand"
  logged apt install -y --no-install-recommends "$@" ||
    fail "apt could not install what is needed: $*" \
      "The lint and sanitizer tools are those of LLVM 14, which Debian 12 has."
  check_minimum_versions
}

system_packages() {
  [[ ${MPFA_SYSTEM_PACKAGES:-} == skip ]] && return
  command -v dpkg-query >/dev/null ||
    fail "this system has no apt." \
      "Install the equivalents of these yourself, then set MPFA_SYSTEM_PACKAGES=skip:" \
      "$*, Python 3.11 or later with venv and pip"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  find_python >/dev/null || missing+=(python3-venv)
  [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
}

# --- Python packages --------------------------------------------------------------------------

# Prints a Python that can make a virtual environment. The one in .venv, if it runs, is one.
find_python() {
  local candidate
  for candidate in .venv/bin/python python3 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  local python
  [[ -x .venv/bin/python ]] && .venv/bin/python -c '' 2>/dev/null && return
  python=$(find_python) || fail "no Python 3.11 or later with venv and ensurepip was found."
  say "making the Python environment .venv with $("$python" --version)"
  logged "$python" -m venv --clear .venv || fail "the Python environment could not be made."
}

# python_packages NAME: installs requirements/NAME.txt unless just that list is in .venv already.
# The lists are complete and exact, and only ready-made wheels are taken, so nothing is compiled.
python_packages() {
  local list=$REQUIREMENTS/$1.txt stamp=.venv/.installed-$1
  cmp -s "$list" "$stamp" && return
  say "installing Python packages into .venv: $list"
  logged .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary :all: -r "$list" || return 1
  cp "$list" "$stamp"
}

figures() {
  python_packages figures && return
  [[ $PROFILE == demo ]] || fail "numpy and matplotlib could not be installed."
  say "note: matplotlib could not be installed. The demo still runs: its table is complete, only" \
    "the figures of report/demo.html are left out. The next run tries again."
}

# CUTLASS's examples run in the simulator, where there is a compiler for them.
cutlass() {
  command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || return 0
  python_packages cutlass ||
    say "note: CUTLASS could not be installed. The tests on its examples are left out."
}

# --- main -------------------------------------------------------------------------------------

PROFILE=${1:-}
PACKAGES=("${DEMO_PACKAGES[@]}")
case $PROFILE in
  demo) ;;
  test) PACKAGES+=("${TEST_PACKAGES[@]}") ;;
  dev) PACKAGES+=("${TEST_PACKAGES[@]}" "${DEV_PACKAGES[@]}") ;;
  *) fail "usage: scripts/setup.sh demo|test|dev" ;;
esac

mkdir -p build
if command -v flock >/dev/null; then
  exec 9>build/.setup.lock  # two makes at once: the second waits and then finds nothing missing
  flock 9
fi
[[ -s $LOG ]] || printf 'Log of scripts/setup.sh\n' >"$LOG"

system_packages "${PACKAGES[@]}"
make_venv
python_packages headers || fail "dlpack.h, which the build includes, could not be installed."
figures
if [[ $PROFILE != demo ]]; then
  python_packages test || fail "the Python packages for the tests could not be installed."
  cutlass
fi
