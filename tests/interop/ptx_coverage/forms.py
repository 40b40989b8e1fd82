"""Expands forms.txt, and asks ptxas which of the forms exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

TYPE = re.compile(r"\.(?:pred|[busef]+m?\d+\w*|bf16(?:x2)?|tf32)(?=\.|$)")
OPERAND = re.compile(r"(?<![\w.%:])([A-GPQS])(?:\*(\d+))?(?:/(\w+))?(?![\w])")
LETTERS = "DABCEFG"
# `byte` is a register of 8 bits: only mov takes those.
KINDS = {0: "b", 8: "h", 16: "h", 32: "r", 64: "l", 128: "q"}
COUNT = 32  # registers of a letter
REGISTER = re.compile(r"%([brhlq])([A-G])")


def expand(pattern: str) -> Iterator[str]:
    """All texts of a pattern with choices: `a<b|c>` gives ab and ac."""
    start = pattern.find("<")
    if start < 0:
        yield pattern
        return
    depth = 0
    choices = [""]
    for at in range(start + 1, len(pattern)):
        char = pattern[at]
        if char == ">" and depth == 0:
            for choice in choices:
                yield from expand(pattern[:start] + choice + pattern[at + 1 :])
            return
        if char == "|" and depth == 0:
            choices.append("")
            continue
        depth += {"<": 1, ">": -1}.get(char, 0)
        choices[-1] += char
    raise ValueError(f"a choice is not closed: {pattern}")


def bits_of(kind: str) -> int:
    if kind == "byte":
        return 0
    match = re.fullmatch(r"[a-z]+\d*?(?:m\d)?(8|16|32|64|128)(?:x(\d))?", kind)
    if kind in ("f16x2", "bf16x2", "u16x2", "s16x2", "tf32"):
        return 32
    if match is None or match[2]:
        return 32  # types of less than a byte and packed ones lie in 32-bit registers
    return int(match[1])


def instruction(form: str) -> str:
    """The PTX text of a form without choices."""
    name, _, operands = form.partition(" ")
    types = [m[0][1:] for m in TYPE.finditer(name)]
    kind = types[-1] if types else "b32"
    vector = re.search(r"\.v([248])\b", name)
    count = re.search(r"\.x([124])\b", name)

    def operand(match: re.Match[str]) -> str:
        letter, copies, of = match[1], match[2], match[3]
        if letter in "PQ":
            return f"%{letter}"
        address = operands[: match.start()].count("[") > operands[: match.start()].count("]")
        if letter == "S":
            return "%rA0"
        if of == "1":
            of = types[0]
        if of is None and address:
            of = "b64"
        register = f"%{KINDS[bits_of(of or kind)]}{letter}"
        if copies is None and of is None and (vector or count):
            copies = vector[1] if vector else count[1]
            register = register if vector else f"%r{letter}"
        if copies is None:
            return f"{register}0"
        return "{" + ", ".join(f"{register}{i}" for i in range(int(copies))) + "}"

    return f"{name} {OPERAND.sub(operand, operands)};" if operands else f"{name};"


def patterns(file: Path) -> list[str]:
    """The rows of a file of forms."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def declarations(text: str) -> str:
    """Of the registers that instructions name, on one line."""
    bits = {kind: number or 8 for number, kind in KINDS.items()}
    used = sorted(set(REGISTER.findall(text)))
    lines = [f".reg .b{bits[kind]} %{kind}{letter}<{COUNT}>;" for kind, letter in used]
    return " ".join([".reg .pred %P, %Q;", *lines])


def module(instructions: list[str], arch: str) -> str:
    """A module with a kernel of these instructions, one a line from line LINE on."""
    text = "\n".join(instructions)
    return (
        f".version 9.0\n.target {arch}\n.address_size 64\n.visible .entry test() {{\n"
        f"{declarations(text)}\n{text}\nret;\n}}\n"
    )


LINE = 6


def accepted(ptxas: str, instructions: list[str], arch: str, folder: Path) -> list[str]:
    """Those that ptxas takes. It names every line that it refuses, so one run does for all; an
    unknown name at the end keeps it from compiling what it has read."""
    file = folder / f"forms_{arch}.ptx"
    left = instructions
    while True:
        file.write_text(module([*left, "no_such_instruction;"], arch))
        run = subprocess.run(
            [ptxas, f"-arch={arch}", str(file), "-o", "/dev/null"], capture_output=True, text=True
        )
        refused = {int(m) for m in re.findall(r", line (\d+); (?:error|fatal)", run.stderr)}
        assert refused, run.stderr
        good = [text for line, text in enumerate(left, LINE) if line not in refused]
        if len(good) == len(left):
            return good
        left = good
