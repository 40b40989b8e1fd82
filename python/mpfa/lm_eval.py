"""lm-evaluation-harness on a low-bit cache: `python -m mpfa.lm_eval` is its command `lm_eval` with
the model "mpfa" in it, which has no other way to know models of other packages.

    python -m mpfa.lm_eval --model mpfa --tasks TASK \\
        --model_args pretrained=smollm2,policy=default,calibration_text=novel.txt

In a program, `import mpfa.lm_eval` registers the model for lm_eval.simple_evaluate(model="mpfa").
Needs the package lm-eval (0.4.13).
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM

from mpfa.eval.command import read_text, tokenize
from mpfa.eval.methods import STATISTICS, Method, Subject, make_methods
from mpfa.eval.policies import choose_policies
from mpfa.models import load_model


@register_model("mpfa")
class MpfaLM(HFLM):
    """A causal language model of transformers that reads keys and values from a cache of ours."""

    def __init__(
        self,
        pretrained: str = "smollm2",
        policy: str = "default",
        statistics: str = "calibrated",
        calibration_text: str | None = None,
        calibration_tokens: int = 8192,
        calibration_window: int = 1024,
        dtype: str = "float32",
        device: str | None = "cpu",
        batch_size: int | str | None = 1,
        **options: Any,
    ) -> None:
        """Loads the model.

        Args:
            pretrained: as load_model() takes it: "smollm2", a folder, a .gguf file.
            policy: a name of `mpfa compare` (docs/spec.md, section 2), "bf16" for the baseline.
            statistics: "calibrated", on the calibration text, or "prompt", of each sequence's first
                tokens.
            calibration_text: a text file.
            calibration_tokens, calibration_window: how much of it, in windows of how many tokens.
            dtype: of weights and activations.
            device: where the model runs; None: "cpu".
            batch_size: must be 1 with statistics of the prompt and for policies that are emulated.
            options: HFLM's others.

        Raises:
            ValueError: an argument that does not fit, by name.
        """
        self._method = _choose_method(policy, statistics)
        batch = int(batch_size or 1) if str(batch_size or 1).isdigit() else 0
        alone = self._method.backend == "emulated" or self._method.statistics == "prompt"
        if alone and batch != 1:
            raise ValueError(f"batch_size = {batch_size}: must be 1 for {self._method.name}")
        needs_text = self._method.statistics == "calibrated"
        if needs_text and calibration_text is None:
            raise ValueError("calibration_text is missing: statistics = 'calibrated' needs it")
        text = read_text("calibration_text", calibration_text) if needs_text else ""
        loaded = load_model(pretrained, dtype=dtype, device=device or "cpu")
        windows = []
        if needs_text:
            tokens = tokenize(loaded.tokenizer, text)[: int(calibration_tokens)]
            windows = list(tokens.split(int(calibration_window)))
        self._subject = Subject(loaded.model, windows, chunk=0)
        self._subject.new_cache(self._method)  # calibrates
        super().__init__(
            pretrained=loaded.model,
            tokenizer=loaded.tokenizer,
            backend="causal",
            batch_size=batch_size or 1,
            **options,
        )

    def _model_call(self, inps: torch.Tensor, *unused: Any, **options: Any) -> torch.Tensor:
        """Logits [batch, tokens, vocabulary] of tokens that go through a new cache."""
        with torch.no_grad():
            return self.model(inps, past_key_values=self._subject.new_cache(self._method)).logits

    def _model_generate(self, context: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        """As HFLM's, on a new cache."""
        cache = self._subject.new_cache(self._method)
        return super()._model_generate(context, *args, past_key_values=cache, **options)


def _choose_method(policy: str, statistics: str) -> Method:
    if statistics not in STATISTICS or statistics == "first_chunk":
        raise ValueError(f"statistics = {statistics!r}: must be 'calibrated' or 'prompt'")
    try:
        chosen = [x for x in choose_policies([policy]) if x.name == policy]
    except ValueError:
        chosen = []
    if len(chosen) != 1:
        raise ValueError(f"policy = {policy!r}: must be a name that `mpfa compare --help` lists")
    return make_methods(chosen, [statistics], "auto")[0]


def main() -> None:
    """The harness's own command line."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    sys.exit(main())
