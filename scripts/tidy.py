"""Runs clang-tidy on the translation units that changed since they last passed.

A unit passes again only with the same content: the key of a pass covers clang-tidy's version,
every .clang-tidy file, the compile command, and the bytes of each file of the project that the unit
includes (from ninja's dependency log, so the build must be up to date). Keys of passes are kept in
BUILD/tidy.json.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = "clang-tidy-14"
EXTRA_ARGS = [
    # The compile commands are the compiler's of the build, often GCC's.
    "--extra-arg=-Wno-unknown-warning-option",
    # A SIMD file includes itself once per target; one target says all that there is to say.
    "--extra-arg=-DHWY_COMPILE_ONLY_STATIC",
]


def read_units(build: Path) -> list[dict]:
    """Returns the compile commands of the project's own files, one per file."""
    units = {}
    for unit in json.loads((build / "compile_commands.json").read_text()):
        path = Path(unit["directory"], unit["file"]).resolve()
        # Only host code: clang 14 does not know this CUDA, nor nvcc's options.
        if path.suffix == ".cu":
            continue
        if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"):
            units.setdefault(str(path.relative_to(ROOT)), unit)
    return [{"name": name, **unit} for name, unit in sorted(units.items())]


def read_dependencies(build: Path) -> dict[str, list[Path]]:
    """Returns the project's files that each object file depends on, from ninja's log."""
    log = subprocess.run(
        ["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    dependencies: dict[str, list[Path]] = {}
    current: list[Path] = []
    for line in log.splitlines():
        if line.startswith("    "):
            path = Path(os.path.normpath(build / line.strip()))
            if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / ".venv"):
                current.append(path)
        elif line:
            current = dependencies.setdefault(line.split(": #deps")[0], [])
    return dependencies


def object_of(unit: dict) -> str:
    """Returns the object file that a compile command makes, as ninja's log names it."""
    arguments = shlex.split(unit["command"])
    return arguments[arguments.index("-o") + 1]


class Keys:
    """Computes what a unit's result depends on."""

    def __init__(self, build: Path):
        self.dependencies = read_dependencies(build)
        self.hashes: dict[Path, str] = {}
        version = subprocess.run(
            [CLANG_TIDY, "--version"], check=True, capture_output=True, text=True
        ).stdout
        configs = [ROOT / ".clang-tidy", *ROOT.glob("[!.]*/.clang-tidy")]
        self.common = [version, *EXTRA_ARGS, *(self.hash_file(path) for path in configs)]

    def hash_file(self, path: Path) -> str:
        if path not in self.hashes:
            content = path.read_bytes() if path.exists() else b"absent"
            self.hashes[path] = hashlib.sha256(content).hexdigest()
        return self.hashes[path]

    def of(self, unit: dict) -> str | None:
        """Returns the key of a unit, or None if its dependencies are not known."""
        dependencies = self.dependencies.get(object_of(unit))
        if not dependencies:
            return None
        parts = [*self.common, unit["command"]]
        for path in sorted(set(dependencies)):
            parts += [str(path.relative_to(ROOT)), self.hash_file(path)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def run_clang_tidy(unit: dict, build: Path) -> tuple[bool, str]:
    """Returns whether the unit is clean, and what clang-tidy printed."""
    done = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", build, *EXTRA_ARGS, unit["file"]],
        cwd=unit["directory"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout + ("" if done.returncode == 0 else done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, help="build folder, up to date")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true", help="also the units that passed before")
    parser.add_argument("files", nargs="*", help="only units whose path contains one of these")
    args = parser.parse_args()

    build = args.build.resolve()
    passed_file = build / "tidy.json"
    passed = json.loads(passed_file.read_text()) if passed_file.exists() else {}
    keys = Keys(build)
    units = [
        unit
        for unit in read_units(build)
        if not args.files or any(part in unit["name"] for part in args.files)
    ]
    work = [
        (unit, key)
        for unit, key in ((unit, keys.of(unit)) for unit in units)
        if args.all or key is None or passed.get(unit["name"]) != key
    ]
    print(f"clang-tidy: {len(work)} of {len(units)} files to check", flush=True)

    lock = threading.Lock()
    failures: list[str] = []

    def check(item: tuple[dict, str | None]) -> None:
        unit, key = item
        start = time.monotonic()
        clean, output = run_clang_tidy(unit, build)
        with lock:
            seconds = time.monotonic() - start
            print(f"clang-tidy: {unit['name']}: {'ok' if clean else 'FAILED'}, {seconds:.0f} s")
            if not clean:
                failures.append(unit["name"])
                print(output, flush=True)
                return
            passed[unit["name"]] = key
            # Whole or not at all, so that an interrupted run loses nothing.
            temporary = passed_file.with_suffix(".tmp")
            temporary.write_text(json.dumps(passed, indent=0, sort_keys=True))
            temporary.replace(passed_file)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(check, work))
    if failures:
        print(f"clang-tidy: {len(failures)} files failed: {' '.join(sorted(failures))}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
