"""Calls every device function of the toolkit's own headers once, for nvcc to say what it makes of
them: intrinsics, the math library, atomics, conversions of half-precision types.

    device_functions.py ARCH CUDA_HEADERS OUTPUT.cu
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from asm_statements import preprocess

HEADERS = [
    "cuda_runtime.h",
    "cuda_fp16.h",
    "cuda_bf16.h",
    "cuda_fp8.h",
    "cuda_fp6.h",
    "cuda_fp4.h",
]
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((.*?)\)\)|__location__\(\w+\)")
# Words and attributes, one of them `device`, a name, and arguments without parentheses.
SPECIFIER = r"[\w\s]|__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)"
DECLARATION = re.compile(
    rf"(?:^|(?<=[;}}]))\s*(?P<specifiers>(?:extern\s+\"C\"|{SPECIFIER})*?"
    rf"__attribute__\s*\(\(device\)\)(?:{SPECIFIER})*?)\s*(?P<name>\w+)"
    r"\s*\((?P<arguments>[^()]*)\)\s*(?:noexcept|throw\(\)|noexcept\s*\(true\))?\s*[;{]",
    re.MULTILINE,
)
SCALARS = set(
    """bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, unsigned int,
    long, unsigned long, long int, unsigned long int, long long, unsigned long long, long long int,
    unsigned long long int, float, double, size_t, uint32_t, uint64_t, clock_t, __half, __half2,
    __nv_bfloat16, __nv_bfloat162, __half_raw, __half2_raw, __nv_bfloat16_raw, __nv_bfloat162_raw,
    __nv_fp8_storage_t, __nv_fp8x2_storage_t, __nv_fp6_storage_t, __nv_fp6x2_storage_t,
    __nv_fp4_storage_t, __nv_fp4x2_storage_t, char2, char4, uchar2, uchar4, short2, short4, ushort2,
    ushort4, int2, int4, uint2, uint4, longlong2, ulonglong2, float2, float4, double2""".replace(
        "\n    ", " "
    ).split(", ")
)
ENUMS = {
    "__nv_saturation_t": "__NV_SATFINITE",
    "__nv_fp8_interpretation_t": "__NV_E4M3",
    "__nv_fp6_interpretation_t": "__NV_E2M3",
    "__nv_fp4_interpretation_t": "__NV_E2M1",
    "cudaRoundMode": "cudaRoundNearest",
}
# Functions whose argument must be a constant.
CONSTANT = {"__prof_trigger": "7", "__brkpt": "7"}
LEFT_OUT = re.compile(
    r"operator|tex|surf|cuda|__cuda|__nv_cvt_.*_raw|main|__assert|__nvvm|mem|malloc|free|v?f?printf"
    r"|(?:__)?(?:all|any|ballot|shfl)$"  # not of sm_70 and later
)


def calls(text: str) -> list[str]:
    """A kernel for each function that `text`, preprocessed headers, declares."""
    kernels: dict[str, str] = {}
    for match in DECLARATION.finditer(text):
        name = match["name"]
        result = base_type(ATTRIBUTE.sub(" ", match["specifiers"]))
        arguments = [
            base_type(a) for a in match["arguments"].split(",") if a.strip() not in ("", "void")
        ]
        if LEFT_OUT.match(name) or result is None or None in arguments:
            continue
        key = f"{name}({', '.join(map(str, arguments))})"
        kernels.setdefault(key, kernel(len(kernels), name, result, [str(a) for a in arguments]))
    return list(kernels.values())


def base_type(text: str) -> str | None:
    """A parameter's or result's type without its name, or None for one that is not known."""
    words = [
        w
        for w in re.sub(r"([*&])", r" \1 ", text).split()
        if w
        not in (
            "static",
            "extern",
            "inline",
            "__inline__",
            "__forceinline__",
            "const",
            '"C"',
            "__restrict__",
            "constexpr",
            "enum",
        )
    ]
    for end in (len(words), len(words) - 1):
        kind = " ".join(words[:end])
        plain = kind.removesuffix(" *").removesuffix(" &")
        if kind == "void" or plain in SCALARS or kind in ENUMS or (kind == "void *"):
            return kind
    return None


def kernel(number: int, name: str, result: str, arguments: list[str]) -> str:
    parameters = []
    values = []
    for i, kind in enumerate(arguments):
        if kind in ENUMS:
            values.append(ENUMS[kind])
            continue
        is_reference = kind.endswith("&")
        parameters.append(f"{kind.removesuffix('&').strip()}{' *' if is_reference else ''} a{i}")
        values.append(f"*a{i}" if is_reference else f"a{i}")
    if name in CONSTANT:
        values = [CONSTANT[name]] if arguments else []
    call = f"{name}({', '.join(values)})"
    if result != "void":
        parameters.append(f"{result} *out")
        call = f"*out = {call}"
    return f"__global__ void call_{number}({', '.join(parameters)}) {{ {call}; }}\n"


def main(arch: str, cuda_headers: str, output: str) -> None:
    text = preprocess(HEADERS, [f"-I{cuda_headers}", f"-I{cuda_headers}/cccl"], arch)
    includes = [f"#include <{header}>\n" for header in HEADERS]
    Path(output).write_text("".join([*includes, *calls(text)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
