"""Whether a call goes to the library at once or through torch's dispatcher.

The dispatcher is what torch.compile, torch.export, fake tensors and other subclasses need; without
them it would only cost time.
"""

from __future__ import annotations

from typing import Any

from mpfa._tensors import refuse_grad, torch

if torch is None:

    def operators_for(**_: Any) -> Any:
        """None: there is no torch."""
        return None

else:
    _PLAIN = (torch.Tensor, torch.nn.Parameter)

    def operators_for(**inputs: Any) -> Any:
        """torch.ops.mpfa where a call on these inputs must go through the dispatcher, else None.

        The first one decides. Gradients, which would be lost there without a word, are refused.
        """
        first = next(iter(inputs.values()))
        if not torch.compiler.is_compiling() and (
            type(first) in _PLAIN or not isinstance(first, torch.Tensor)
        ):
            return None
        for name, x in inputs.items():
            if isinstance(x, torch.Tensor):
                refuse_grad(name, x)
        return torch.ops.mpfa
