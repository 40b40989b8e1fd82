"""The cache: its tensors, its writer, its files."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from mpfa import _direct
from mpfa._direct import CACHE_FIELDS, PAGE_FIELDS
from mpfa._dispatch import operators_for
from mpfa._library import function
from mpfa._scalars import ScaleRule, flag, integer, is_unicode, path_text, searches_scales
from mpfa._statistics import Statistics
from mpfa._tensors import (
    CacheFramework,
    device_text,
    ffi_device,
    framework_of,
    from_ffi,
    is_on_gpu,
    output_to_ffi,
    parse_device,
    to_ffi,
    to_ffi_or_none,
    torch,
)

_new_cache = function("new_cache")
_load_cache = function("load_cache")
_save_cache = function("save_cache")
_bytes_per_token_and_kv_head = function("bytes_per_token_and_kv_head")

_TABLES = ("block_table", "seq_lens")
_REQUIRED = ("k_codes", "k_scales", "v", "k_mean")


class KvCache:
    """A paged low-bit KV cache of one layer: its tensors and frozen statistics.

    Attributes, each a tensor of one framework on one device, or None where the cache lacks it (e4m3
    is torch.float8_e4m3fn or ml_dtypes.float8_e4m3fn; uint8 is taken, too):

    ================  =======  =============================================================
    k_codes           uint8    [pages, Hkv, page_size, d / 2]: two e2m1 a byte
    k_scales          e4m3     [pages, Hkv, page_size, d / 16]
    v                 e4m3     [pages, Hkv, page_size, d]
    delta_s           BF16     [pages, Hq, page_size], optional
    k_residual        e4m3     [pages, Hkv, page_size, r], optional
    k_first           BF16     [pages, Hkv, d], optional: slot 0 of each page
    k_mean            FP32     [stats, Hkv, d]
    q_mean            FP32     [stats, Hq, d], with delta_s
    residual_basis    FP32     [stats, Hkv, r, d], with k_residual: orthonormal rows
    residual_scale    FP32     [stats, Hkv, r], with k_residual; > 0
    k_scale, v_scale  FP32     [stats, Hkv], finite and > 0; None: 1
    stats_index       int32    [b]: row of statistics of each sequence; None: row 0
    block_table       int32    [b, max_pages], optional: pages of each sequence
    seq_lens          int32    [b], optional: tokens of each sequence
    ================  =======  =============================================================

    They may be written in place and replaced, but not given other memory by resize_() or `.data`.
    Pages start zeroed, means at 0, scales at 1, the residual basis at the unit vectors: statistics
    must be set before the first key is stored. copy.copy() shares the tensors, copy.deepcopy()
    copies them; a cache is pickled (torch.save) as they are.
    """

    k_codes: Any
    k_scales: Any
    v: Any
    delta_s: Any
    k_residual: Any
    k_first: Any
    k_mean: Any
    q_mean: Any
    residual_basis: Any
    residual_scale: Any
    k_scale: Any
    v_scale: Any
    stats_index: Any
    block_table: Any
    seq_lens: Any
    metadata: dict[str, str]  # of the file that the cache was loaded from
    _packed: Any = None  # see packed()

    def __init__(
        self,
        *,
        num_pages: int,
        num_kv_heads: int,
        head_dim: int,
        num_q_heads: int = 0,
        page_size: int = 64,
        residual_rank: int = 8,
        first_key: bool = True,
        delta_s: bool = False,
        num_stats: int = 1,
        batch_size: int = 0,
        max_pages_per_seq: int = 0,
        device: Any = "cpu",
        framework: CacheFramework | None = None,
    ) -> None:
        """Allocates a cache.

        Args:
            num_pages: pages of the pool, 1 to 2^31 - 1.
            num_kv_heads: Hkv.
            head_dim: d, 64 or 128.
            num_q_heads: Hq, a multiple of Hkv; may stay 0 without delta_s.
            page_size: tokens of a page, 16, 32, 64 or 128.
            residual_rank: r, 0 (no k_residual), 4, 8 or 16.
            first_key: whether the first key of a sequence is exact.
            delta_s: whether the paper's compensation is stored.
            num_stats: rows of statistics.
            batch_size: above 0: room for stats_index of this many sequences.
            max_pages_per_seq: above 0 (with batch_size): a block_table this wide, and seq_lens.
            device: "cpu", "cuda", "cuda:N" or a torch.device.
            framework: whose tensors: "torch", "numpy" (CPU only), or "dlpack" for tensors of the
                library's own that any framework can import; None: torch where it is installed.

        Raises:
            TypeError, ValueError: an argument that is out of range, by name.
        """
        chosen = _choose_framework(framework, device)
        place = parse_device("device", device)
        pages = integer("num_pages", num_pages)
        if not 1 <= pages < 2**31:
            raise ValueError(f"num_pages = {pages}: must be 1 to {2**31 - 1}")
        # The library knows shapes, types and first values: it makes the cache, or one of a page.
        owned = chosen == "dlpack"
        layout = _new_cache(
            pages if owned else 1,
            integer("page_size", page_size),
            integer("num_q_heads", num_q_heads),
            integer("num_kv_heads", num_kv_heads),
            integer("head_dim", head_dim),
            integer("residual_rank", residual_rank),
            flag("first_key", first_key),
            flag("delta_s", delta_s),
            integer("num_stats", num_stats),
            integer("batch_size", batch_size),
            integer("max_pages_per_seq", max_pages_per_seq),
            ffi_device(place if owned else (1, 0)),
        )
        tensors = {str(name): x for name, x in layout.items()}
        if chosen == "torch":
            tensors = _torch_tensors(tensors, pages, device_text(place))
        elif chosen == "numpy":
            tensors = _numpy_tensors(tensors, pages)
        self._set(tensors, {})

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; of a tensor's, the library is told at the next call."""
        self.__dict__[name] = value
        if name in CACHE_FIELDS:
            self.__dict__["_packed"] = None

    def __getstate__(self) -> dict[str, Any]:
        """What copies have: not the library's own views of the tensors."""
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}

    def _set(self, tensors: Mapping[str, Any], metadata: dict[str, str]) -> None:
        for name in (*CACHE_FIELDS, *_TABLES):
            setattr(self, name, tensors.get(name))
        self.metadata = metadata

    @classmethod
    def from_tensors(cls, **tensors: Any) -> KvCache:
        """A cache made of existing tensors, which it uses in place, by the attributes' names.

        Shapes and types are checked when the cache is used.

        Raises:
            TypeError: k_codes, k_scales, v or k_mean missing, an unknown name, no tensor.
            ValueError: a tensor that cannot be used in place.
        """
        known = (*CACHE_FIELDS, *_TABLES)
        for name in tensors:
            if name not in known:
                raise TypeError(
                    f"{name} is no tensor of a cache: must be one of {', '.join(known)}"
                )
        for name in _REQUIRED:
            if tensors.get(name) is None:
                raise TypeError(f"{name} is missing: a cache must have {', '.join(_REQUIRED)}")
        for name, tensor in tensors.items():
            to_ffi_or_none(name, tensor)
        cache = cls.__new__(cls)
        cache._set(tensors, {})
        return cache

    @classmethod
    def load(
        cls, path: Any, *, framework: CacheFramework | None = None, device: Any = "cpu"
    ) -> KvCache:
        """Reads a file that save() or the mpfa command wrote.

        Args:
            path: a safetensors file.
            framework, device: as in KvCache().

        Raises:
            OSError: a file that cannot be read or is not a cache; it names the file and the tensor.
        """
        chosen = _choose_framework(framework, device)
        place = parse_device("device", device)
        if chosen == "dlpack" and place[0] != 1:
            raise ValueError(f"device = {device!r}: must be 'cpu' where framework is 'dlpack'")
        loaded, metadata = _load_cache(path_text("path", path))
        tensors = {str(name): from_ffi(x, chosen) for name, x in loaded.items()}
        if place[0] != 1:
            tensors = {name: x.to(device_text(place)) for name, x in tensors.items()}
        cache = cls.__new__(cls)
        cache._set(tensors, {str(key): str(value) for key, value in metadata.items()})
        return cache

    def save(self, path: Any, *, metadata: Mapping[str, str] | None = None) -> None:
        """Writes the cache, block_table and seq_lens included, to one safetensors file.

        The file appears whole or not at all. From a GPU it waits for the work given so far and
        copies. `metadata` (None: the cache's own) is kept beside, "format" and "version" apart.

        Raises:
            ValueError: a cache that load() would reject.
            OSError: from the system, naming the file.
        """
        pairs = self.metadata if metadata is None else metadata
        for key, value in pairs.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"metadata[{key!r}] = {value!r}: keys and values must be str")
            if not (is_unicode(key) and is_unicode(value)):
                raise ValueError(f"metadata[{key!r}] = {value!r}: must be text that UTF-8 has")
        _save_cache(
            path_text("path", path),
            self.packed(),
            to_ffi_or_none("block_table", self.block_table),
            to_ffi_or_none("seq_lens", self.seq_lens),
            dict(pairs),
        )

    def tensors(self) -> list[Any]:
        """The tensors in the library's order, None where the cache lacks one; no tables."""
        return [getattr(self, name) for name in CACHE_FIELDS]

    def packed(self) -> Any:
        """The tensors as the library takes them, made once for as long as none is replaced."""
        packed = self._packed  # which another thread may take away
        if packed is None:
            packed = _direct.pack_cache(self.tensors())
            self.__dict__["_packed"] = packed
        return packed

    def set_statistics(self, statistics: Statistics, row: int = 0) -> None:
        """Copies what calibrate() found into a row of the cache's statistics.

        Before the first key of any sequence that uses the row. A tensor that only one of both has
        is an error where the cache needs it (q_mean, residual_basis, residual_scale), else ignored.

        Raises:
            TypeError: what is no tensor.
            ValueError: a row that is not there, a tensor that is missing or of another shape;
                nothing has been written then.
        """
        copies = []
        for name in ("k_mean", "q_mean", "residual_basis", "residual_scale"):
            target, source = getattr(self, name), getattr(statistics, name)
            if target is None:
                continue
            if source is None:
                raise ValueError(f"statistics.{name} is None: the cache has {name}")
            rows = target.shape[0]
            if not 0 <= integer("row", row) < rows:
                raise ValueError(f"row = {row}: must be 0 to {rows - 1}")
            output_to_ffi(f"cache.{name}", target)
            source = to_ffi(f"statistics.{name}", source)
            expected, shape = tuple(target.shape[1:]), tuple(source.shape)
            if shape != expected:
                raise ValueError(f"statistics.{name} has shape {shape}: must have {expected}")
            copies.append((name, target, source))
        _copy_rows(copies, row)

    def to(self, device: Any) -> KvCache:
        """A cache with the same values on another device (tensors of torch only)."""
        if framework_of(self.k_codes) != "torch":
            raise TypeError("the cache's tensors are not torch's: only those can be moved")
        place = device_text(parse_device("device", device))
        moved = copy.copy(self)
        moved._set(
            {
                name: None if x is None else x.to(place)
                for name in (*CACHE_FIELDS, *_TABLES)
                for x in [getattr(self, name)]
            },
            dict(self.metadata),
        )
        return moved

    @property
    def num_pages(self) -> int:
        """Pages of the pool."""
        return self.k_codes.shape[0]

    @property
    def num_kv_heads(self) -> int:
        """Hkv."""
        return self.k_codes.shape[1]

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self.k_codes.shape[2]

    @property
    def head_dim(self) -> int:
        """d."""
        return self.v.shape[3]

    @property
    def residual_rank(self) -> int:
        """r; 0 without k_residual."""
        return 0 if self.k_residual is None else self.k_residual.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes of all pages, statistics and tables excluded."""
        return sum(_nbytes(x) for x in (getattr(self, name) for name in PAGE_FIELDS))

    def __repr__(self) -> str:
        """A line that says how large it is."""
        return (
            f"KvCache({self.num_pages} pages of {self.page_size} tokens, {self.num_kv_heads} KV"
            f" heads, head_dim {self.head_dim}, residual_rank {self.residual_rank},"
            f" {self.nbytes} bytes)"
        )


def append_kv(
    cache: KvCache,
    k: Any,
    v: Any,
    slot_mapping: Any,
    *,
    cu_seqlens: Any = None,
    scale_rule: ScaleRule = "search",
    error_count: Any = None,
) -> None:
    """Writes new tokens into the cache in one pass.

    Centres K with the frozen mean, quantises K and V, computes whichever of delta_s, k_residual and
    k_first the cache has. On a GPU it is queued on torch's current stream and may be captured in a
    CUDA graph; the bytes are the same as on the CPU.

    Args:
        cache: written in place.
        k, v: [tokens, Hkv, d] BF16, FP16 or FP32, one type; any outer strides; after the rotary
            embedding.
        slot_mapping: [tokens] int64: page * page_size + offset; -1 skips the token.
        cu_seqlens: [b + 1] int32: tokens of each sequence; needed where stats_index names more than
            one sequence and there is more than one row of statistics.
        scale_rule: "search" tries six scales a block, "plain" is the paper's.
        error_count: [1] int32 on the GPU: counts the tokens that are not written because their slot
            or row is out of range, which the host cannot see there.

    Raises:
        TypeError: an argument that is no tensor.
        ValueError: a shape, type, stride or (on the CPU) slot that does not fit; nothing has been
            written then.
    """
    check_cache(cache)
    search = searches_scales(scale_rule)
    operators = operators_for(k=k, v=v)
    if operators is not None:
        operators.append_kv(*cache.tensors(), k, v, slot_mapping, search, cu_seqlens, error_count)
        return
    _direct.check_writable(PAGE_FIELDS, [getattr(cache, name) for name in PAGE_FIELDS])
    _direct.append_kv(cache.packed(), k, v, slot_mapping, search, cu_seqlens, error_count)


def bytes_per_token_and_kv_head(
    head_dim: int, *, residual_rank: int = 8, group_size: int = 0, delta_s: bool = False
) -> float:
    """Bytes that one token takes per KV head in a cache, all tensors but k_first.

    200 for d = 128 without compensation, 2.56 times less than BF16's 512. `group_size` is
    Hq / Hkv, which only delta_s needs.

    Raises:
        ValueError: a head dimension or rank that is not supported.
    """
    return _bytes_per_token_and_kv_head(
        integer("group_size", group_size),
        1,
        integer("head_dim", head_dim),
        integer("residual_rank", residual_rank),
        flag("delta_s", delta_s),
    )


def check_cache(cache: Any) -> None:
    """TypeError for what is no cache."""
    if not isinstance(cache, KvCache):
        raise TypeError(f"cache is a {type(cache).__qualname__}: must be a KvCache")


def _choose_framework(framework: CacheFramework | None, device: Any) -> CacheFramework:
    if framework is None:
        return "numpy" if torch is None and str(device) == "cpu" else "torch" if torch else "dlpack"
    if framework not in ("torch", "numpy", "dlpack"):
        raise ValueError(f"framework = {framework!r}: must be 'torch', 'numpy' or 'dlpack'")
    if framework == "torch" and torch is None:
        raise ValueError("framework = 'torch': torch is not installed")
    if framework == "numpy" and str(device) != "cpu":
        raise ValueError(f"device = {device!r}: must be 'cpu' where framework is 'numpy'")
    return framework


def _torch_tensors(layout: Mapping[str, Any], num_pages: int, device: str) -> dict[str, Any]:
    tensors = {}
    for name, x in layout.items():
        first = from_ffi(x, "torch")
        if name in PAGE_FIELDS:
            shape = (num_pages, *first.shape[1:])
            tensors[name] = torch.zeros(shape, dtype=first.dtype, device=device)
        else:
            tensors[name] = first.to(device, copy=True)
    return tensors


def _numpy_tensors(layout: Mapping[str, Any], num_pages: int) -> dict[str, Any]:
    tensors = {}
    for name, x in layout.items():
        first = from_ffi(x, "numpy")
        if name in PAGE_FIELDS:
            tensors[name] = np.zeros((num_pages, *first.shape[1:]), first.dtype)
        else:
            tensors[name] = first.copy()
    return tensors


def _copy_rows(copies: list[tuple[str, Any, Any]], row: int) -> None:
    """Writes a row of each target: (name, target, source)."""
    by_library = []
    by_framework = []
    for name, target, source in copies:
        is_own = framework_of(target) == "torch" or not (is_on_gpu(target) or is_on_gpu(source))
        if is_own:
            by_framework.append((target, source))
        else:
            copy = (name, to_ffi(f"cache.{name}", target), _compact_floats(name, source))
            by_library.append(copy)
    if by_library:  # first, for it may find what does not fit
        names, targets, sources = zip(*by_library, strict=True)
        function("copy_rows")(names, sources, targets, row)
    for target, source in by_framework:
        if framework_of(target) == "torch":
            target[row].copy_(torch.from_dlpack(source))
        else:
            array = target if framework_of(target) == "numpy" else np.from_dlpack(target)
            array[row] = np.from_dlpack(source)


def _compact_floats(name: str, source: Any) -> Any:
    """FP32 in order of what lies on the host; what is on a GPU stays as it is."""
    if is_on_gpu(source):
        return source
    return to_ffi(f"statistics.{name}", np.ascontiguousarray(np.from_dlpack(source), np.float32))


def _nbytes(x: Any) -> int:
    if x is None:
        return 0
    if hasattr(x, "nbytes"):
        return x.nbytes
    return int(np.prod(x.shape)) * ((x.dtype.bits * x.dtype.lanes + 7) // 8)
