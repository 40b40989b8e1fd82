"""Emulated caches: against attention written out in NumPy and double from docs/spec.md, and against
MpfaCache where it stores the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
import torch
from eval_support import make_model, make_subject, method, random_tokens
from mpfa.eval.emulation import ATTENTION, EmulatedCache, EmulatedLayer
from mpfa.eval.policies import POLICIES, Policy
from mpfa.eval.statistics import LayerStatistics, find_statistics

_HEADS, _KV_HEADS, _DIM, _TOKENS = 6, 2, 64, 300
_GROUP = _HEADS // _KV_HEADS


def _activations(
    tokens: int = _TOKENS, seed: int = 0, offset_size: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [Hq, tokens, d], k and v [Hkv, tokens, d], FP32, off centre, of several scales."""
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.normal(0, 0.7, _DIM))

    def draw(heads: int, size: float) -> np.ndarray:
        offset = rng.normal(0, offset_size, (heads, 1, _DIM))
        return (size * (rng.normal(0, 1, (heads, tokens, _DIM)) * scale + offset)).astype(
            np.float32
        )

    return draw(_HEADS, 0.7), draw(_KV_HEADS, 1.0), draw(_KV_HEADS, 1.0)


def _nvfp4(x: np.ndarray, rule: str) -> np.ndarray:
    return oracle.nvfp4_values(*oracle.nvfp4(x.astype(np.float32), rule == "search"))


def _e4m3(x: np.ndarray) -> np.ndarray:
    return oracle.e4m3(np.asarray(x, np.float32)).astype(np.float64)


def _bf16(x: np.ndarray) -> np.ndarray:
    return torch.tensor(np.asarray(x, np.float32)).bfloat16().double().numpy()


def _head_scores(
    policy: Policy, stats: LayerStatistics, q: np.ndarray, k: np.ndarray, head: int
) -> np.ndarray:
    """docs/spec.md, section 2, of one query head: scores [rows, keys], unscaled."""
    kv = head // _GROUP
    of = {name: None if x is None else x.double().numpy() for name, x in vars(stats).items()}
    centred = k[kv] if of["k_mean"] is None else k[kv] - of["k_mean"][kv].astype(np.float32)
    rounding = {
        "nvfp4": lambda x: _nvfp4(x, policy.k_scale_rule),
        "e4m3": _e4m3,
        "input": lambda x: x,
    }
    restored = rounding[policy.k](centred).astype(np.float64)
    left = centred - restored
    x = q[head].astype(np.float64)
    scores = np.zeros((q.shape[1], k.shape[1]))
    if policy.delta_s:
        x = x - of["q_mean"][head]
        scores += _bf16(centred @ of["q_mean"][head])
    if policy.residual_rank:
        basis = of["residual_basis"][kv]
        if policy.residual_format == "bf16":
            p = _bf16(left @ basis.T)
            scores += _bf16(x @ basis.T) @ p.T
        else:
            p = _e4m3(left @ basis.T / of["residual_scale"][kv]) * of["residual_scale"][kv]
            scores += x @ basis.T @ p.T
        left = left - p @ basis
    if policy.first_key:
        scores[:, 0] += x @ _bf16(left[0])
    first = x if policy.q == "input" else _nvfp4(x, policy.q_scale_rule)
    second = _nvfp4(x.astype(np.float32) - first, policy.q_scale_rule)
    return scores + (first + (second if policy.q == "nvfp4_two_terms" else 0)) @ restored.T


def _expected(
    policy: Policy, stats: LayerStatistics, q: np.ndarray, k: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Algorithm 1 as it is written, a row and a block of 128 keys at a time, last block first."""
    values = _e4m3(v) if policy.v == "e4m3" else v.astype(np.float64)
    out = np.zeros(q.shape)
    for head in range(_HEADS):
        scores = _head_scores(policy, stats, q, k, head) / np.sqrt(_DIM)
        for row in range(q.shape[1]):
            visible = scores[row, : k.shape[1] - q.shape[1] + row + 1]
            m, total, sums = -np.inf, 0.0, np.zeros(_DIM)
            for begin in reversed(range(0, len(visible), 128)):
                block = visible[begin : begin + 128]  # the last may be shorter
                largest = max(m, block.max())
                p = np.exp(block - largest)
                shrink = np.exp(m - largest)
                total = total * shrink + p.sum()
                p = _e4m3(448 * p) / 448 if policy.p == "e4m3" else p
                sums = sums * shrink + p @ values[head // _GROUP, begin : begin + len(block)]
                m = largest
            out[head, row] = sums / total
    return out


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"bf16"}))
def test_attention_is_that_of_the_specification(name: str) -> None:
    policy = POLICIES[name]
    q, k, v = _activations()
    stats = find_statistics(policy, torch.tensor(q), torch.tensor(k))
    layer = EmulatedLayer(policy, stats)
    layer.update(torch.tensor(k)[None], torch.tensor(v)[None])
    found = layer.attend(torch.tensor(q), _DIM**-0.5).double().numpy()
    expected = _expected(policy, stats, q, k, v)
    # Roundings of P (and of BF16 terms) may fall to the other side of a tie.
    assert np.linalg.norm(found - expected) < 2e-3 * np.linalg.norm(expected)


def test_policies_differ_as_the_specification_says() -> None:
    """The order of the table's errors, on activations that centring matters for."""
    q, k, v = _activations(seed=3, offset_size=4.0)
    exact = _expected(POLICIES["input"], LayerStatistics(), q, k, v)

    def error(name: str) -> float:
        policy = POLICIES[name]
        stats = find_statistics(policy, torch.tensor(q), torch.tensor(k))
        layer = EmulatedLayer(policy, stats)
        layer.update(torch.tensor(k)[None], torch.tensor(v)[None])
        found = layer.attend(torch.tensor(q), _DIM**-0.5).double().numpy()
        return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))

    names = ["fp8_v", "search_r16", "search_r8", "search_r4", "search", "plain", "nvfp4_fp8_direct"]
    errors = [error(name) for name in names]
    assert errors == sorted(errors)


@pytest.mark.parametrize("name", ["default", "mpfa", "two_terms_columns_first", "fp8_k"])
def test_decode_steps_give_what_one_pass_gives(name: str) -> None:
    policy = POLICIES[name]
    q, k, v = (torch.tensor(x) for x in _activations(40))
    stats = find_statistics(policy, q, k)
    whole = EmulatedLayer(policy, stats)
    whole.update(k[None], v[None])
    expected = whole.attend(q, 0.125)
    steps = EmulatedLayer(policy, stats)
    for begin, end in ((0, 30), *((i, i + 1) for i in range(30, 40))):
        steps.update(k[None, :, begin:end], v[None, :, begin:end])
        torch.testing.assert_close(steps.attend(q[:, begin:end], 0.125), expected[:, begin:end])


@pytest.mark.parametrize("name", ["default", "search", "search_delta_s_first", "plain_delta_s"])
@pytest.mark.parametrize("statistics", ["calibrated", "first_chunk", "prompt"])
def test_the_library_gives_what_is_emulated(name: str, statistics: str) -> None:
    subject, tokens = make_subject(), random_tokens(120)
    logits = {}
    for backend in ("library", "emulated"):
        of = method(name, statistics, backend)
        of = replace(of, policy=replace(of.policy, p="fp32"))  # as the library has it here
        cache = subject.new_cache(of)
        prompt = subject.logits(of, cache, tokens[:100])
        steps = [subject.logits(of, cache, tokens[i : i + 1]) for i in range(100, 120)]
        logits[backend] = torch.cat([prompt, *steps])
    exact = subject.logits(method("input"), subject.new_cache(method("input")), tokens)
    apart = (logits["library"] - logits["emulated"]).norm()
    # Sums in another order move some roundings to the other side of a tie.
    assert apart < 0.2 * (logits["library"] - exact).norm()
    assert apart < 0.02 * exact.norm()


def test_statistics_of_the_prompt_are_of_its_first_call() -> None:
    subject, tokens = make_subject(chunk=16), random_tokens(64)
    found = {}
    for source in ("first_chunk", "prompt"):
        of = method("search_delta_s", source)
        cache = subject.new_cache(of)
        subject.logits(of, cache, tokens)
        found[source] = cache.layers[0].statistics.k_mean
        assert cache.get_seq_length() == 64
    assert not torch.allclose(found["first_chunk"], found["prompt"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_ids": torch.ones(2, 8, dtype=torch.long)}, "batch of 2 sequences: must be 1"),
        ({"attention_mask": torch.tensor([[0] * 3 + [1] * 5])}, "padding is not emulated"),
    ],
)
def test_what_is_not_emulated_is_refused(options: dict, message: str) -> None:
    model = make_model()
    model.set_attn_implementation(ATTENTION)
    arguments = {"input_ids": torch.ones(1, 8, dtype=torch.long), **options}
    cache = EmulatedCache(model.config, POLICIES["default"])
    with pytest.raises(ValueError, match=message), torch.no_grad():
        model(**arguments, past_key_values=cache)


def test_a_foreign_cache_is_refused() -> None:
    model = make_model()
    model.set_attn_implementation(ATTENTION)
    with pytest.raises(ValueError, match="needs past_key_values=EmulatedCache"), torch.no_grad():
        model(torch.ones(1, 8, dtype=torch.long))
