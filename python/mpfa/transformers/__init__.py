"""Hugging Face transformers on the low-bit cache (transformers 5.17 or later).

Importing this registers the attention function "mpfa" and its mask function. Then:

    import mpfa.transformers
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="mpfa", dtype="bfloat16")
    cache = mpfa.transformers.MpfaCache(model.config)
    model.generate(**inputs, past_key_values=cache)

The attention reads the packed cache itself: no layer is ever dequantised as a whole. What is not
supported is refused by name, before anything is stored. docs/python.md has the details.
"""

from mpfa.transformers._cache import MpfaCache
from mpfa.transformers._calibrate import calibrate_model
from mpfa.transformers._foreign import quantize_foreign_caches
from mpfa.transformers._memory import CacheMemory
from mpfa.transformers._register import register
from mpfa.transformers._statistics import ModelStatistics

register()

__all__ = [
    "CacheMemory",
    "ModelStatistics",
    "MpfaCache",
    "calibrate_model",
    "quantize_foreign_caches",
]
