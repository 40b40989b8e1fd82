"""Compares mpfa/formats.h with ml_dtypes and numpy, array by array.

Where the conventions differ, this file says so and bridges the difference itself:
* ml_dtypes turns e4m3 overflow (and infinity) into NaN; MpFA saturates at 448.
* ml_dtypes gives zero for the e2m1 of a NaN; MpFA gives +6, code 7.
* a NaN's payload is nobody's standard: only its being a NaN and its sign are compared.

MPFA_FORMATS_CAPI in the environment names the shared library made from formats_capi.cc.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

Float32Array = npt.NDArray[np.float32]
CodeArray = npt.NDArray[Any]

E4M3_MAX = np.float32(448)
E4M3_MAX_CODE = 0x7E
E4M3_NAN_CODE = 0x7F
BLOCK = 16
SEARCH_STEPS = range(-1, 5)

SPREAD_COUNT = 1 << 24
CHUNK = 1 << 22
STRIDE = 0x9E3779B1  # odd: visits patterns of the whole 2^32 without repeating one


@pytest.fixture(scope="session")
def lib() -> ctypes.CDLL:
    path = os.environ.get("MPFA_FORMATS_CAPI")
    if not path:
        pytest.fail("MPFA_FORMATS_CAPI is not set: must name the library mpfa_formats_capi")
    return ctypes.CDLL(path)


def pointer(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def convert(
    function: Callable[..., None], source: npt.NDArray[Any], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    source = np.ascontiguousarray(source)
    result = np.empty(source.shape, dtype)
    function(pointer(source), pointer(result), ctypes.c_size_t(source.size))
    return result


@dataclass(frozen=True)
class Format:
    name: str
    dtype: type
    code_dtype: type
    num_codes: int

    def encode(self, lib: ctypes.CDLL, x: Float32Array) -> CodeArray:
        return convert(getattr(lib, f"mpfa_{self.name}_from_float"), x, self.code_dtype)

    def decode(self, lib: ctypes.CDLL, codes: CodeArray) -> Float32Array:
        function = getattr(lib, f"mpfa_{self.name}_to_float")
        return convert(function, codes.astype(self.code_dtype), np.float32)

    def oracle_encode(self, x: Float32Array) -> CodeArray:
        """Codes by the other implementation; those of NaN mean nothing."""
        with np.errstate(all="ignore"):
            if self.name == "e4m3":
                x = np.clip(x, -E4M3_MAX, E4M3_MAX)
            return x.astype(self.dtype).view(self.code_dtype)

    def oracle_decode(self, codes: CodeArray) -> Float32Array:
        return codes.astype(self.code_dtype).view(self.dtype).astype(np.float32)

    def all_codes(self) -> CodeArray:
        return np.arange(self.num_codes, dtype=self.code_dtype)


FORMATS = [
    Format("bf16", ml_dtypes.bfloat16, np.uint16, 1 << 16),
    Format("fp16", np.float16, np.uint16, 1 << 16),
    Format("e4m3", ml_dtypes.float8_e4m3fn, np.uint8, 1 << 8),
    Format("e2m1", ml_dtypes.float4_e2m1fn, np.uint8, 1 << 4),
]


@pytest.fixture(params=FORMATS, ids=lambda f: f.name)
def fmt(request: pytest.FixtureRequest) -> Format:
    result: Format = request.param
    return result


def bits_of(x: Float32Array) -> npt.NDArray[np.uint32]:
    return x.view(np.uint32)


def assert_same_floats(
    actual: Float32Array, expected: Float32Array, sources: npt.NDArray[Any]
) -> None:
    """Equal bit for bit, but for the payload of NaNs."""
    nan = np.isnan(expected)
    same = np.where(nan, np.isnan(actual), bits_of(actual) == bits_of(expected))
    same &= np.signbit(actual) == np.signbit(expected)
    bad = np.flatnonzero(~same)
    assert bad.size == 0, [
        (hex(int(sources.flat[i])), float(actual.flat[i]), float(expected.flat[i]))
        for i in bad[:10]
    ]


def assert_encodes_like_oracle(lib: ctypes.CDLL, fmt: Format, x: Float32Array) -> None:
    actual = fmt.encode(lib, x)
    expected = fmt.oracle_encode(x)
    nan = np.isnan(x)
    if fmt.name == "e2m1":
        expected = np.where(nan, np.uint8(7), expected)
    bad = np.flatnonzero((actual != expected) & ~(nan & (fmt.name != "e2m1")))
    assert bad.size == 0, [
        (float(x[i]).hex(), hex(int(actual[i])), hex(int(expected[i]))) for i in bad[:10]
    ]
    if fmt.name != "e2m1" and nan.any():
        decoded = fmt.oracle_decode(actual[nan])
        assert np.isnan(decoded).all()
        assert (np.signbit(decoded) == np.signbit(x[nan])).all()


def spread_patterns() -> Iterator[Float32Array]:
    """2^24 FP32 patterns over every sign, exponent and mantissa."""
    for start in range(0, SPREAD_COUNT, CHUNK):
        index = np.arange(start, start + CHUNK, dtype=np.uint64)
        yield (index * np.uint64(STRIDE)).astype(np.uint32).view(np.float32)


def boundary_values(fmt: Format) -> Float32Array:
    """Every value of a format and every midpoint, each with its FP32 neighbours."""
    decoded = fmt.oracle_decode(fmt.all_codes())
    values = np.unique(decoded[np.isfinite(decoded)]).astype(np.float64)
    centres = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    exact = centres.astype(np.float32)
    assert (exact == centres).all()
    up = np.nextafter(exact, np.float32(np.inf))
    down = np.nextafter(exact, np.float32(-np.inf))
    return np.concatenate([exact, up, down])


def test_every_code_has_the_same_value(lib: ctypes.CDLL, fmt: Format) -> None:
    codes = fmt.all_codes()
    assert_same_floats(fmt.decode(lib, codes), fmt.oracle_decode(codes), codes)


@pytest.mark.parametrize("source", FORMATS[:2], ids=lambda f: f.name)
def test_every_16_bit_pattern(lib: ctypes.CDLL, fmt: Format, source: Format) -> None:
    assert_encodes_like_oracle(lib, fmt, source.oracle_decode(source.all_codes()))


def test_values_and_midpoints(lib: ctypes.CDLL, fmt: Format) -> None:
    assert_encodes_like_oracle(lib, fmt, boundary_values(fmt))


def test_spread_fp32_patterns(lib: ctypes.CDLL, fmt: Format) -> None:
    for x in spread_patterns():
        assert_encodes_like_oracle(lib, fmt, x)


def test_saturation_and_special_values(lib: ctypes.CDLL) -> None:
    x = np.array([448, 464, 465, 480, 1e30, np.inf, -465, -np.inf, np.nan, -0.0], np.float32)
    codes = FORMATS[2].encode(lib, x)
    expected = [0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0xFE, 0x7F, 0x80]
    assert codes.tolist() == expected


# --- NVFP4 blocks ----------------------------------------------------------------


def to_e4m3(x: Float32Array) -> npt.NDArray[np.uint8]:
    clipped = np.clip(x, -E4M3_MAX, E4M3_MAX)
    return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def from_e4m3(codes: npt.NDArray[np.uint8]) -> Float32Array:
    values: Float32Array = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    return values


def plain_scales(x: Float32Array) -> npt.NDArray[np.uint8]:
    """e4m3(amax / 6); NaN anywhere in a block gives 0x7F."""
    amax = np.abs(x).max(axis=1)
    scales = to_e4m3(amax / np.float32(6))
    scales[np.isnan(x).any(axis=1)] = E4M3_NAN_CODE
    return scales


def codes_with_scales(x: Float32Array, scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Codes of all elements, one a byte."""
    s = from_e4m3(scales)
    r = np.where(scales == 0, np.float32(0), np.float32(1) / s).astype(np.float32)
    scaled = x * r[:, None]
    codes = scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return np.where(np.isnan(scaled), np.uint8(7), codes)


def values_of(codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8]) -> Float32Array:
    decoded = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    values: Float32Array = from_e4m3(scales)[:, None] * decoded
    return values


def squared_errors(
    x: Float32Array, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8]
) -> Float32Array:
    """FP32 throughout, summed by halves."""
    e = values_of(codes, scales) - x
    v = e * e
    while v.shape[1] > 1:
        half = v.shape[1] // 2
        v = v[:, :half] + v[:, half:]
    errors: Float32Array = v[:, 0]
    assert errors.dtype == np.float32
    return errors


def searched_scales(x: Float32Array) -> npt.NDArray[np.uint8]:
    """Of the six neighbours the one with the smallest error, the earlier on a tie."""
    plain = plain_scales(x)
    searchable = (plain != 0) & (plain != E4M3_NAN_CODE)
    chosen = plain.copy()
    smallest = np.full(plain.shape, np.nan, np.float32)  # no candidate yet
    for step in SEARCH_STEPS:
        code = plain.astype(np.int32) + step
        allowed = searchable & (code >= 1) & (code <= E4M3_MAX_CODE)
        candidate = np.where(allowed, code, plain).astype(np.uint8)
        error = squared_errors(x, codes_with_scales(x, candidate), candidate)
        better = allowed & (np.isnan(smallest) | (error < smallest))
        chosen[better] = candidate[better]
        smallest[better] = error[better]
    return chosen


def quantize(x: Float32Array, search: bool) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Codes [n, 16] and scales [n] as docs/spec.md, section 1, defines them."""
    with np.errstate(all="ignore"):
        scales = searched_scales(x) if search else plain_scales(x)
        return codes_with_scales(x, scales), scales


def random_blocks(count: int) -> Float32Array:
    """Normal blocks of every magnitude that matters, from scale 0 to saturation."""
    rng = np.random.default_rng(7)
    deviation = np.exp2(rng.integers(-20, 24, (count, 1))).astype(np.float32)
    x = rng.standard_normal((count, BLOCK), np.float32) * deviation
    outlier = rng.integers(0, BLOCK, count)
    x[np.arange(count), outlier] *= rng.choice([1, 3, 20, 100], count)
    return x.astype(np.float32)


def grid_blocks(count: int) -> Float32Array:
    """Multiples of a quarter: ties between codes and between scales abound."""
    rng = np.random.default_rng(8)
    largest = rng.integers(1, 25, (count, 1))
    steps = rng.integers(-largest, largest + 1, (count, BLOCK))
    x: Float32Array = np.ldexp(steps * 0.25, rng.integers(-9, 9, (count, 1))).astype(np.float32)
    return x


def amax_tie_blocks() -> Float32Array:
    """amax / 6 at every scale and every tie of two scales, and beside them."""
    scales = boundary_values(FORMATS[2])
    amax = np.abs(scales) * np.float32(6)
    beside = [amax, np.nextafter(amax, np.float32(0)), np.nextafter(amax, E4M3_MAX * 9)]
    x = np.zeros((3 * amax.size, BLOCK), np.float32)
    x[:, 5] = np.concatenate(beside)
    x[1::2, 9] = -x[1::2, 5] / np.float32(3)
    return x


def special_blocks() -> Float32Array:
    """Zeros of both signs, infinities, NaNs, denormals and values that overflow."""
    tiny = [0.0, -0.0, 1e-45, -1e-40, 1e-38, 6 * 2.0**-10]
    huge = [1e10, -2e19, 3e38, np.inf, -np.inf, np.nan, -np.nan]
    fill = [0.0, -0.0, 1e-45, 1.0, -300.0, 1e5]
    x = np.empty((len(tiny + huge), len(fill), BLOCK), np.float32)
    x[:] = np.array(fill, np.float32)[None, :, None]
    x[:, :, 3] = np.array(tiny + huge, np.float32)[:, None]
    return x.reshape(-1, BLOCK)


BLOCKS: dict[str, Callable[[], Float32Array]] = {
    "random": lambda: random_blocks(1 << 17),
    "grid": lambda: grid_blocks(1 << 16),
    "amax_ties": amax_tie_blocks,
    "special": special_blocks,
}


def unpack(pairs: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Element 2i is in the low nibble of byte i."""
    return np.stack([pairs % 16, pairs // 16], axis=-1).reshape(len(pairs), BLOCK)


@pytest.mark.parametrize("search", [False, True], ids=["plain", "search"])
@pytest.mark.parametrize("family", BLOCKS)
def test_nvfp4_blocks(lib: ctypes.CDLL, family: str, search: bool) -> None:
    x = np.ascontiguousarray(BLOCKS[family]())
    pairs = np.empty((len(x), BLOCK // 2), np.uint8)
    scales = np.empty(len(x), np.uint8)
    lib.mpfa_nvfp4_quantize(
        pointer(x),
        pointer(pairs),
        pointer(scales),
        ctypes.c_size_t(len(x)),
        ctypes.c_int(search),
    )
    expected_codes, expected_scales = quantize(x, search)
    wrong = (scales != expected_scales) | (unpack(pairs) != expected_codes).any(axis=1)
    bad = np.flatnonzero(wrong)
    assert bad.size == 0, [(x[i].tolist(), scales[i], expected_scales[i]) for i in bad[:3]]

    values = np.empty_like(x)
    lib.mpfa_nvfp4_dequantize(
        pointer(pairs), pointer(scales), pointer(values), ctypes.c_size_t(len(x))
    )
    expected_values = values_of(expected_codes, expected_scales)
    nan = scales == E4M3_NAN_CODE
    assert np.isnan(values[nan]).all()
    assert not np.isnan(values[~nan]).any()
    assert (bits_of(values[~nan]) == bits_of(expected_values[~nan])).all()


def test_nvfp4_search_beats_plain() -> None:
    """The comparison above means something only if the two rules often differ."""
    x = np.random.default_rng(9).standard_normal((4096, BLOCK), np.float32)
    plain = squared_errors(x, *quantize(x, search=False))
    searched = squared_errors(x, *quantize(x, search=True))
    assert (searched <= plain).all()
    assert np.mean(searched < plain) > 0.5


def test_every_nvfp4_product_is_exact_in_16_bits(lib: ctypes.CDLL) -> None:
    scales = np.arange(256, dtype=np.uint8)
    pairs = np.tile(np.array([i * 0x22 + 0x10 for i in range(8)], np.uint8), (256, 1))
    assert (unpack(pairs)[0] == np.arange(BLOCK)).all()
    values = np.empty((256, BLOCK), np.float32)
    lib.mpfa_nvfp4_dequantize(
        pointer(pairs), pointer(scales), pointer(values), ctypes.c_size_t(256)
    )
    with np.errstate(all="ignore"):
        expected = values_of(unpack(pairs), scales)
    finite = scales % 128 != E4M3_NAN_CODE
    assert np.isnan(values[~finite]).all()
    for narrow in (np.float32, np.float16, ml_dtypes.bfloat16):
        rounded = np.ascontiguousarray(values[finite]).astype(narrow).astype(np.float32)
        assert (bits_of(rounded) == bits_of(expected[finite])).all()
