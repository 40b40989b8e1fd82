"""Frozen statistics of all layers of a model, and their file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from mpfa._info import __version__
from mpfa._scalars import path_text
from mpfa._statistics import Statistics

_FIELDS = ("k_mean", "q_mean", "residual_basis", "residual_scale")
_RANKS = {"k_mean": 2, "q_mean": 2, "residual_basis": 3, "residual_scale": 2}


@dataclass
class ModelStatistics:
    """Statistics of a model's layers, for every KV head: what mpfa.calibrate() finds for one.

    Attributes:
        layers: by the layer's index. Tensors of torch on the CPU, FP32: k_mean [Hkv, d], q_mean
            [Hq, d], residual_basis [Hkv, r, d] (orthonormal rows, the most important first),
            residual_scale [Hkv, r]; all but k_mean may be None.
        metadata: says what made them: "made_by", "mpfa_version", "scale_rule", "delta_s", and for
            calibrate_model() "model", "source" and "tokens".
    """

    layers: dict[int, Statistics]
    metadata: dict[str, str] = field(default_factory=dict)

    def save(self, path: Any) -> None:
        """Writes a safetensors file that `mpfa quantize --stats` and load() read.

        Tensors are FP32 and named as `mpfa calibrate` names them: `layer00.k_mean` [1, Hkv, d],
        `.q_mean` [1, Hq, d], `.residual_basis` [1, Hkv, r, d], `.residual_scale` [1, Hkv, r].
        The file appears whole or not at all.

        Raises:
            OSError: from the system.
        """
        tensors = {}
        for index, layer in self.layers.items():
            for name in _FIELDS:
                value = getattr(layer, name)
                if value is not None:
                    tensor = value.detach().to("cpu", torch.float32)
                    tensors[f"layer{index:02d}.{name}"] = tensor[None].contiguous()
        target = path_text("path", path)
        partial = f"{target}.{os.getpid()}.part"
        try:
            with open(partial, "wb") as file:
                file.write(save(tensors, {"mpfa_version": __version__, **self.metadata}))
            os.replace(partial, target)
        finally:
            if os.path.exists(partial):
                os.unlink(partial)

    @classmethod
    def load(cls, path: Any) -> ModelStatistics:
        """Reads a file of save() or of `mpfa calibrate`.

        A layer's index is the last number in its name ("layer07", "model.layers.7"); tensors
        without a layer's name are layer 0's.

        Raises:
            OSError: a file that cannot be read or holds no statistics; it names file and tensor.
        """
        source = path_text("path", path)
        found: dict[int, dict[str, torch.Tensor]] = {}
        try:
            with safe_open(source, "pt") as file:
                metadata = dict(file.metadata() or {})
                for key in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                    prefix, _, name = key.rpartition(".")
                    if name in _FIELDS:
                        layer = found.setdefault(_layer_index(source, key, prefix), {})
                        layer[name] = _checked(source, key, name, file.get_tensor(key))
        except SafetensorError as error:
            raise OSError(f"{source!r}: {error}") from None
        if not found:
            raise OSError(f"{source!r} has no tensor <layer>.k_mean: must be a file of statistics")
        for index, tensors in found.items():
            if "k_mean" not in tensors:
                raise OSError(f"{source!r}: layer {index} has no k_mean")
            if ("residual_basis" in tensors) != ("residual_scale" in tensors):
                raise OSError(
                    f"{source!r}: layer {index} has one of residual_basis and residual_scale: must"
                    " have both or none"
                )
        layers = {index: Statistics(**found[index]) for index in sorted(found)}
        return cls(layers, {key: value for key, value in metadata.items() if key != "format"})

    def residual_rank(self) -> int:
        """Directions that every layer has; 0: no residual."""
        ranks = (
            0 if x.residual_basis is None else x.residual_basis.shape[1]
            for x in self.layers.values()
        )
        return min(ranks, default=0)

    def layer(self, index: int, *, residual_rank: int, delta_s: bool) -> Statistics:
        """A layer's statistics for a cache with these compensations: the first directions.

        Raises:
            ValueError: no such layer, too few directions, or no q_mean where delta_s needs it.
        """
        if index not in self.layers:
            raise ValueError(
                f"statistics has no layer {index}: must have every layer of the model; it has"
                f" {_listed(self.layers)}"
            )
        full = self.layers[index]
        if delta_s and full.q_mean is None:
            raise ValueError(f"statistics of layer {index} has no q_mean, which delta_s needs")
        stored = 0 if full.residual_basis is None else full.residual_basis.shape[1]
        if stored < residual_rank:
            raise ValueError(
                f"residual_rank = {residual_rank}: statistics of layer {index} has {stored}"
                " directions"
            )
        if residual_rank == 0:
            return Statistics(full.k_mean, full.q_mean)
        return Statistics(
            full.k_mean,
            full.q_mean,
            full.residual_basis[:, :residual_rank],
            full.residual_scale[:, :residual_rank],
        )


def _listed(layers: Mapping[int, Any]) -> str:
    return ", ".join(map(str, sorted(layers))) or "none"


def _layer_index(source: str, key: str, prefix: str) -> int:
    if prefix == "":
        return 0
    numbers = re.findall(r"\d+", prefix)
    if not numbers:
        raise OSError(f"{source!r}: tensor {key!r}: its layer's name must have a number")
    return int(numbers[-1])


def _checked(source: str, key: str, name: str, stored: torch.Tensor) -> torch.Tensor:
    shape = tuple(stored.shape)
    if stored.dtype != torch.float32 or len(shape) != _RANKS[name] + 1 or shape[0] != 1:
        raise OSError(
            f"{source!r}: tensor {key!r} is {stored.dtype} {shape}: must be torch.float32 with"
            f" {_RANKS[name] + 1} dimensions, the first of 1"
        )
    if not torch.isfinite(stored).all():
        raise OSError(f"{source!r}: tensor {key!r} has values that are not finite")
    if name == "residual_scale" and not (stored > 0).all():
        raise OSError(f"{source!r}: tensor {key!r} has values that are not above 0")
    return stored[0]
