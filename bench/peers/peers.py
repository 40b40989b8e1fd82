"""What the scripts that time mpfa beside a peer share."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
NO_GPU = 3  # exit code of a peer's program


def print_nothing_measured(reason: str) -> None:
    print(f"{Path(sys.argv[0]).name}: nothing is measured: {reason}")


def run_mpfa(command: str, what: str, options: list[str]) -> Row | str:
    """What `mpfa bench WHAT --backend cuda` measured, or why nothing can be. Exits on a failure."""
    arguments = [command, "bench", what, "--backend", "cuda", "--json", "-", *options]
    try:
        result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{command}: not found (--mpfa names the command)")
    if result.returncode == 1 and "--backend cuda: " in result.stderr:
        return result.stderr.strip()
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def has_peer(program: Path, build_script: str) -> bool:
    """Says so where the peer's program is not there."""
    if program.is_file():
        return True
    print_nothing_measured(f"{program} is not there ({build_script} makes it)")
    return False


def run_peer(program: Path, options: list[str], cases: list[str]) -> list[Row]:
    """The rows that a peer's program prints for these cases. Exits where it cannot run."""
    result = subprocess.run(
        [str(program.resolve()), *options],
        input="\n".join(cases) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode == NO_GPU:
        print_nothing_measured("there is no GPU that the peer can use")
        sys.exit(0)
    if result.returncode != 0:
        sys.exit(f"{program} ended with {result.returncode}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def print_table(header: list[str], table: list[list[str]]) -> None:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *table]) for i in range(len(header))]
    for row in [header, *table]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def print_skipped(reasons: dict[str, list[str]], num_cases: int) -> None:
    """For each reason, the cases that it kept from being measured."""
    for reason, where in reasons.items():
        print(f"not measured: {reason} ({len(where)} of {num_cases} cases, first {where[0]})")


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def write_json(path: Path, document: Row) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")
