"""Tasks: perplexity against torch itself, needles, continuations."""

from __future__ import annotations

import re

import pytest
import torch
from eval_support import (
    make_model,
    make_subject,
    make_text,
    make_tokenizer,
    method,
    random_tokens,
)
from mpfa.eval.continuation import Continuation
from mpfa.eval.needle import Needle, build_haystack, split_sentences
from mpfa.eval.perplexity import Perplexity


def test_perplexity_is_that_of_torch() -> None:
    subject, tokens = make_subject(), random_tokens(200)
    task = Perplexity(tokens, window=60, windows=3)
    assert task.items() == ["0", "1", "2"]
    model = make_model()
    for item in task.items():
        window = tokens[int(item) * 60 : int(item) * 60 + 60]
        with torch.no_grad():
            p = model(window[None], labels=window[None])  # the loss that transformers computes
        found = dict(task.run(subject, item, [method("input"), method("bf16"), method("search")]))
        first, second, third = found.values()
        assert first["nll"] == pytest.approx(p.loss.item(), rel=1e-5)
        assert first["kl"] == 0
        assert first["agreement"] == 1
        assert second["nll"] == pytest.approx(p.loss.item(), rel=0.01)
        assert 0 < second["kl"] < third["kl"]
        assert third["agreement"] < 1


def test_kl_is_the_baselines_expectation() -> None:
    subject, tokens = make_subject(), random_tokens(50)
    base, other = method("input"), method("search")
    found = dict(Perplexity(tokens, 50, 1).run(subject, "0", [base, other]))
    logits = [subject.logits(x, subject.new_cache(x), tokens)[:-1].double() for x in (base, other)]
    p, q = (x.softmax(-1) for x in logits)
    expected = (p * (p / q).log()).sum(-1).mean().item()
    assert found[other]["kl"] == pytest.approx(expected, rel=1e-3)


def test_a_text_that_is_too_short_is_named() -> None:
    with pytest.raises(ValueError, match=r"--text has 100 tokens: must have 120 for --windows 2"):
        Perplexity(random_tokens(100), window=60, windows=2)
    with pytest.raises(ValueError, match=r"--text has 100 tokens: must have 120 for --prompts 2"):
        Continuation(random_tokens(100), prompt=60, prompts=2, new_tokens=4)


def test_continuation_of_the_baseline_is_that_of_generate() -> None:
    subject, tokens = make_subject(), random_tokens(80)
    task = Continuation(tokens, prompt=40, prompts=2, new_tokens=12)
    model = make_model()
    chosen = task._decode(subject, method("input"), tokens[:40], None)
    expected = model.generate(
        tokens[None, :40], max_new_tokens=12, do_sample=False, eos_token_id=None
    )
    assert chosen.tolist() == expected[0, 40:].tolist()


def test_agreement_counts_steps_along_the_baseline() -> None:
    subject, tokens = make_subject(), random_tokens(80)
    task = Continuation(tokens, prompt=40, prompts=2, new_tokens=24)
    base, rough = method("input"), method("nvfp4_fp8_direct")
    found = dict(task.run(subject, "1", [base, rough]))
    assert found[base] == {"agreement": 1.0, "same_tokens": 24.0, "identical": 1.0}
    # Teacher-forced in one pass, which shares nothing with the steps but the cache.
    prompt = tokens[40:80]
    forced = task._decode(subject, base, prompt, None)
    logits = subject.logits(rough, subject.new_cache(rough), torch.cat([prompt, forced[:-1]]))
    same = logits[39:].argmax(-1) == forced
    assert 0 < same.float().mean() < 1
    assert found[rough]["agreement"] == pytest.approx(same.float().mean().item())
    assert found[rough]["same_tokens"] == int(same.long().cumprod(0).sum())
    assert found[rough]["identical"] == 0


@pytest.mark.parametrize("length", [150, 400])
@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
def test_a_haystack_holds_its_needle_where_it_should(length: int, depth: float) -> None:
    tokenizer, sentences = make_tokenizer(), split_sentences(make_text(100, seed=4))
    made = build_haystack(tokenizer, sentences, length, depth, seed="1")
    assert len(made.tokens) <= length
    assert len(made.tokens) > length - 20  # a sentence, at most
    assert made.prompt.count(made.value) == 1
    assert re.fullmatch(r"\d{7}", made.value)
    key = re.search(r"magic numbers for (\S+) is: (\d+)\.", made.prompt)
    assert key.group(2) == made.value
    assert made.prompt.endswith(
        f"magic number for {key.group(1)} mentioned in the provided text is"
    )
    before = split_sentences(made.prompt[made.prompt.index("\n") : key.start()])
    after = split_sentences(made.prompt[key.end() : made.prompt.index("\nWhat is")])
    count = len(before) - 1 + len(after)  # "One of the special" is the needle's own
    assert len(before) - 1 == pytest.approx(depth * count, abs=0.51)
    assert tokenizer.decode(made.answer).replace(" ", "") == made.value


def test_haystacks_are_the_same_for_the_same_seed() -> None:
    def task(seed: int) -> Needle:
        return Needle(make_tokenizer(), make_text(60, seed=4), [150], [0.5], 2, seed)

    assert task(0).items() == ["150/0.5/0", "150/0.5/1"]
    one, again = (task(0).haystack("150/0.5/0") for _ in range(2))
    assert one.prompt == again.prompt
    others = [task(0).haystack("150/0.5/1"), task(1).haystack("150/0.5/0")]
    assert all(x.value != one.value for x in others)


def test_needles_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"--lengths 20: must be at least \d+ for one sentence"):
        build_haystack(make_tokenizer(), ["The sea."], 20, 0.5, seed="1")
    with pytest.raises(ValueError, match=r"--depths 1.5: must be 0 to 1"):
        Needle(make_tokenizer(), "The sea.", [100], [1.5], 1, 0)


def test_a_needle_is_found_if_every_token_is_the_likeliest() -> None:
    subject = make_subject()
    task = Needle(make_tokenizer(), make_text(60, seed=4), [150], [0.5], 1, 0)
    haystack = task.haystack("150/0.5/0")
    tokens = torch.cat([haystack.tokens, haystack.answer])
    with torch.no_grad():
        logits = make_model()(tokens[None]).logits[0, len(haystack.tokens) - 1 : -1]
    (values,) = dict(task.run(subject, "150/0.5/0", [method("input")])).values()
    expected = torch.nn.functional.cross_entropy(logits, haystack.answer).item()
    assert values["nll"] == pytest.approx(expected, rel=1e-4)
    assert values["found"] == float((logits.argmax(-1) == haystack.answer).all())
    # A model that always says the answer finds it.
    task._answer_logits = lambda *_: torch.nn.functional.one_hot(haystack.answer, 200) * 50.0
    (values,) = dict(task.run(subject, "150/0.5/0", [method("input")])).values()
    assert values["found"] == 1
