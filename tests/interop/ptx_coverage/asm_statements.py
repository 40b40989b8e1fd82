"""Finds the inline assembly of CUDA headers, and makes PTX functions of it.

The headers are preprocessed as nvcc does it for one architecture, so that what stands in the text
is what that architecture may emit. The code itself is not compiled: a template that no one
instantiates counts too.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__))?\s*\(")
LINE_MARKER = re.compile(r'^# (\d+) "([^"]*)"', re.MULTILINE)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
RAW_STRING = re.compile(r'\bR"(\w*)\((.*?)\)\1"', re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
PLACE = re.compile(r"%(%|=|\d+)")

# The register type of a constraint letter (CUDA's guide to inline PTX).
TYPES = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64", "q": "b128"}


@dataclass
class AsmStatement:
    """One asm statement: its text, and the constraints of its operands, outputs first."""

    place: str  # "file:line", the file as it was included
    template: str
    constraints: list[str]
    arguments: list[str] = field(default_factory=list)  # the expressions, as written

    def has_constants(self) -> bool:
        return any(c in ("n", "i") for c in self.constraints)

    def constant(self, number: int, otherwise: int) -> str:
        argument = self.arguments[number]
        if re.fullmatch(r"-?\d+", argument):
            return argument
        # CUTLASS's name for the selector of sparse metadata: 0 is right for all types.
        return "0" if "spsel" in argument else str(otherwise)

    def key(self) -> tuple[str, ...]:
        """Equal for statements of which one is enough to look at."""
        constants = [self.arguments[i] for i, c in enumerate(self.constraints) if c in ("n", "i")]
        return (self.template, *self.constraints, *constants)

    def is_ptx(self) -> bool:
        return all(c in TYPES or c in ("n", "i") for c in self.constraints)

    def kernel(self, constant: int) -> str:
        """A kernel of this text; `constant` is the value of all operands that must be one."""
        names = []
        registers = []
        for number, constraint in enumerate(self.constraints):
            if constraint in TYPES:
                names.append(f"%asm_{number}")
                registers.append(f"  .reg .{TYPES[constraint]} %asm_{number};")
            else:
                names.append(self.constant(number, constant))

        def operand(match: re.Match[str]) -> str:
            if match[1] == "%":
                return "%"
            return "0" if match[1] == "=" else names[int(match[1])]

        text = PLACE.sub(operand, self.template)
        if text.rstrip()[-1:] not in (";", "}", ":"):
            text += ";"
        return "\n".join([".visible .entry test() {", *registers, text, "  ret;", "}"]) + "\n"


def preprocess(headers: list[str], include_flags: list[str], arch: str) -> str:
    """The headers' text as nvcc's pass for `arch` ("sm_90a") sees it."""
    sm = int(re.sub(r"\D", "", arch))
    flags = [
        "-std=c++17",
        "-w",
        "-D__CUDACC__",
        "-D__NVCC__",
        "-DCUDA_DOUBLE_MATH_FUNCTIONS",
        "-D__CUDACC_DEVICE_ATOMIC_BUILTINS__=1",
        "-D__CUDACC_VER_MAJOR__=13",
        "-D__CUDACC_VER_MINOR__=0",
        "-D__CUDACC_VER_BUILD__=0",
        f"-D__CUDA_ARCH__={sm * 10}",
        f"-D__CUDA_ARCH_LIST__={sm * 10}",
    ]
    if arch.endswith("a"):
        flags += [
            f"-D__CUDA_ARCH_FEAT_SM{sm}_ALL",
            f"-D__CUDA_ARCH_SPECIFIC__={sm * 10}",
            f"-D__CUDA_ARCH_FAMILY_SPECIFIC__={sm * 10}",
        ]
    source = "".join(f"#include <{header}>\n" for header in ["cuda_runtime.h", *headers])
    return subprocess.run(
        [os.environ.get("CXX", "g++"), "-E", "-x", "c++", *flags, *include_flags, "-"],
        input=source,
        capture_output=True,
        check=True,
        text=True,
    ).stdout


def plain_string(match: re.Match[str]) -> str:
    """A raw string as a plain one; its line ends stand behind it, so lines keep their numbers."""
    text = match[2].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"' + "\n" * match[2].count("\n")


def closing_parenthesis(text: str, start: int) -> int:
    """Where the parenthesis that was open at `start` closes; strings are skipped."""
    depth = 1
    at = start
    while depth:
        if text[at] == '"':
            match = STRING.match(text, at)
            assert match is not None
            at = match.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def sections(body: str) -> list[str]:
    """What stands between the colons of an asm statement (`::` of a C++ name is none)."""
    parts = [""]
    depth = 0
    at = 0
    while at < len(body):
        char = body[at]
        if char == '"':
            match = STRING.match(body, at)
            assert match is not None
            parts[-1] += match[0]
            at = match.end()
            continue
        depth += {"(": 1, ")": -1, "[": 1, "]": -1}.get(char, 0)
        if char == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
        at += 1
    return parts


def operands(section: str) -> Iterator[tuple[str, str]]:
    """The constraint and the expression of each operand."""
    at = 0
    while (match := STRING.search(section, at)) is not None:
        start = section.index("(", match.end()) + 1
        at = closing_parenthesis(section, start) + 1
        yield match[1].lstrip("=+&"), section[start : at - 1].strip()


@cache
def real_path(file: str) -> Path:
    return Path(file).resolve()


def name_in(file: str, folders: list[Path]) -> str | None:
    """The file's path in the first of the folders that holds it."""
    path = real_path(file)
    return next((str(path.relative_to(f)) for f in folders if path.is_relative_to(f)), None)


def asm_statements(text: str, folders: list[Path]) -> Iterator[AsmStatement]:
    """The asm statements of preprocessed text, of the files in `folders` (resolved paths)."""
    text = RAW_STRING.sub(plain_string, text)
    markers = [(m.start(), int(m[1]), m[2]) for m in LINE_MARKER.finditer(text)]
    marker = 0
    for match in ASM.finditer(text):
        while marker + 1 < len(markers) and markers[marker + 1][0] < match.start():
            marker += 1
        start, line, file = markers[marker]
        name = name_in(file, folders)
        if name is None:
            continue
        line += text.count("\n", start, match.start()) - 1
        body = text[match.end() : closing_parenthesis(text, match.end())]
        parts = sections(LINE_MARKER.sub("", body))
        template = "".join(ESCAPE.sub(unescape, s) for s in STRING.findall(parts[0]))
        found = [o for part in parts[1:3] for o in operands(part)]
        if template.strip():
            yield AsmStatement(
                place=f"{name}:{line}",
                template=template,
                constraints=[c for c, _ in found],
                arguments=[a for _, a in found],
            )


def unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "\n": ""}.get(match[1], match[1])


def headers_with_asm(folder: Path) -> list[str]:
    """The headers of an include folder that hold inline assembly, relative to it."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ASM.search(path.read_text(errors="replace"))
    )
