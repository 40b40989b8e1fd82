"""Makes "mpfa" known to transformers."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask, sdpa_mask

from mpfa.transformers._attention_function import mpfa_attention
from mpfa.transformers._mask import padding_mask
from mpfa.transformers._observer import EAGER_OBSERVER, OBSERVER, eager_observer, observer


def register() -> None:
    """Registers the attention function, its mask function, and what calibration uses."""
    for name, function, mask in (
        ("mpfa", mpfa_attention, padding_mask),
        (OBSERVER, observer, sdpa_mask),
        (EAGER_OBSERVER, eager_observer, eager_mask),
    ):
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, mask)
