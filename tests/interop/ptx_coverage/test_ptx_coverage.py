"""What nvcc and its libraries may emit, the simulator decodes; what it does not is in
known_missing.txt.

Four sources: the inline assembly of the toolkit's, CCCL's and CUTLASS's headers, as text
(asm_statements.py); every function that the toolkit's headers declare for devices, called once
(device_functions.py); templates of its libraries (library_calls.cu); and the forms of instructions
in forms.txt that ptxas takes.

In the environment: MPFA_UNDECODED, the tool made of undecoded.cc; MPFA_NVCC; MPFA_CUTLASS_DIR,
which may be empty; MPFA_COVERAGE_PTX, a folder with the PTX that nvcc made of the two programs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from asm_statements import AsmStatement, asm_statements, headers_with_asm, preprocess
from forms import accepted, expand, instruction, module, patterns

HERE = Path(__file__).parent
UNDECODED = os.environ["MPFA_UNDECODED"]
NVCC = Path(os.environ["MPFA_NVCC"]).resolve()
CUDA_HEADERS = NVCC.parent.parent / "include"
CUTLASS = os.environ.get("MPFA_CUTLASS_DIR", "")
COMPILED = Path(os.environ["MPFA_COVERAGE_PTX"])

if not (CUDA_HEADERS / "cccl/cuda/ptx").is_file():
    pytest.skip(f"{CUDA_HEADERS} does not hold nvcc's headers", allow_module_level=True)

# Headers that others expect to have been included before them.
FIRST = [
    "cuda/ptx",
    "cuda/atomic",
    "cuda/barrier",
    "cuda/pipeline",
    "cooperative_groups.h",
    "cooperative_groups/memcpy_async.h",
    "cub/cub.cuh",
]
# An operand that must be a constant is known only where a template is instantiated. A statement is
# decoded if it is with one of these: a flag or scale, bytes of a copy, registers of setmaxnreg,
# bytes of a tensor map.
CONSTANTS = [1, 16, 24, 128]


@dataclass(frozen=True)
class Failure:
    module: str
    instruction: str
    reason: str


@dataclass
class Decoded:
    failures: list[Failure]
    instructions: int


def decode(arch: str, *files: Path) -> Decoded:
    run = subprocess.run(
        [UNDECODED, arch, *map(str, files)], capture_output=True, text=True, check=True
    )
    *lines, last = run.stdout.splitlines()
    failures = [Failure(*line.split("\t")) for line in lines]
    return Decoded(failures, int(last.split()[0]))


@cache
def known_missing() -> list[re.Pattern[str]]:
    lines = (HERE / "known_missing.txt").read_text().splitlines()
    entries = [line.partition("  ") for line in lines if line and not line.startswith("#")]
    assert all(reason for _, _, reason in entries)
    return [re.compile(pattern) for pattern, _, _ in entries]


used: set[str] = set()


def unknown(failures: list[Failure]) -> list[Failure]:
    """Those that no entry of known_missing.txt explains."""
    left = []
    for failure in failures:
        entry = next((e for e in known_missing() if e.fullmatch(failure.instruction)), None)
        if entry is None:
            left.append(failure)
        else:
            used.add(entry.pattern)
    return left


def header_statements(arch: str) -> list[AsmStatement]:
    """The inline assembly that a program for `arch` may contain, each text once."""
    folders = [CUDA_HEADERS / "cccl", CUDA_HEADERS]
    if CUTLASS:
        folders.append(Path(CUTLASS) / "include")
    headers = FIRST + [
        header.removeprefix("cccl/") for f in folders[1:] for header in headers_with_asm(f)
    ]
    text = preprocess(headers, [f"-I{f}" for f in folders], arch)
    statements = asm_statements(text, [f.resolve() for f in folders])
    return list({s.key(): s for s in statements if s.is_ptx()}.values())


def variants(statements: list[AsmStatement], arch: str) -> Iterator[str]:
    for number, statement in enumerate(statements):
        for constant in CONSTANTS if statement.has_constants() else CONSTANTS[:1]:
            yield f"//// {number} {constant}\n"
            yield f".version 9.0\n.target {arch}\n.address_size 64\n" + statement.kernel(constant)


@pytest.mark.parametrize(("arch", "least"), [("sm_80", 2000), ("sm_89", 2000), ("sm_90a", 3000)])
def test_inline_assembly_of_headers(arch: str, least: int, tmp_path: Path) -> None:
    statements = header_statements(arch)
    assert len(statements) > (least if CUTLASS else least // 2)
    file = tmp_path / "headers.ptx"
    file.write_text("".join(variants(statements, arch)))
    decoded = decode(arch, file)
    assert decoded.instructions > len(statements)

    failed: dict[int, dict[str, list[Failure]]] = {}
    for failure in decoded.failures:
        number, constant = failure.module.split()
        failed.setdefault(int(number), {}).setdefault(constant, []).append(failure)
    complaints = []
    for number, by_constant in failed.items():
        statement = statements[number]
        tried = len(CONSTANTS) if statement.has_constants() else 1
        if len(by_constant) == tried:
            complaints += [(statement.place, f) for f in unknown(next(iter(by_constant.values())))]
    assert complaints == []


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("program", ["device_functions", "library_calls"])
def test_compiled_programs(program: str, arch: str) -> None:
    decoded = decode(arch, COMPILED / f"{program}_{arch}.ptx")
    assert decoded.instructions > 20000
    assert unknown(decoded.failures) == []


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_forms_that_ptxas_takes(arch: str, tmp_path: Path) -> None:
    rows = [[instruction(f) for f in expand(p)] for p in patterns(HERE / "forms.txt")]
    tried = list(dict.fromkeys(form for row in rows for form in row))
    taken = accepted(str(NVCC.parent / "ptxas"), tried, arch, tmp_path)
    if arch == "sm_90a":
        # A row of which nothing exists says nothing.
        exists = set(taken)
        assert [row[0] for row in rows if exists.isdisjoint(row)] == []
        assert len(taken) > 15000
    file = tmp_path / "taken.ptx"
    file.write_text("".join(f"//// \n{module([form], arch)}" for form in taken))
    decoded = decode(arch, file)
    assert decoded.instructions == 2 * len(taken)  # a ret each
    assert unknown(decoded.failures) == []


def test_every_known_gap_is_one() -> None:
    if not used:
        pytest.skip("it looks at what the tests before it met")
    version = (CUDA_HEADERS / "cuda_runtime_api.h").read_text()
    if "#define CUDART_VERSION 13000" not in re.sub(r" +", " ", version):
        pytest.skip("known_missing.txt is of CUDA 13.0")
    unused = [entry.pattern for entry in known_missing() if entry.pattern not in used]
    assert unused == []
