"""Means over items with their standard errors, paired with the baseline's."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from mpfa.eval.policies import BASELINE
from mpfa.eval.results import Results


@dataclass(frozen=True)
class Estimate:
    """A mean over items and its standard error; nan for the error of a single item."""

    mean: float
    error: float
    items: int


def estimate(values: list[float]) -> Estimate:
    """Mean and standard error of independent values."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, math.nan, 1)
    variance = math.fsum((x - mean) ** 2 for x in values) / (n - 1)
    return Estimate(mean, math.sqrt(variance / n), n)


def paired(values: dict[str, float], baseline: dict[str, float]) -> Estimate:
    """Of the differences to the baseline's values, over items that both have."""
    return estimate([values[item] - baseline[item] for item in values if item in baseline])


def in_percent(difference: Estimate) -> Estimate:
    """The change of a perplexity in percent, for a difference of log likelihoods."""
    ratio = math.exp(difference.mean)
    return Estimate(100 * (ratio - 1), 100 * ratio * difference.error, difference.items)


@dataclass(frozen=True)
class Row:
    """A method's figures in a task, by column."""

    method: str
    figures: dict[str, Estimate]


def perplexity_rows(results: Results) -> list[Row]:
    """ppl (exp of the mean nll of the method's windows), change to the baseline in percent, KL in
    nats, agreement in percent."""
    rows = []
    baseline = results.values("perplexity", BASELINE, "nll")
    for method in results.methods:
        nll = results.values("perplexity", method, "nll")
        if not nll:
            continue
        mean = estimate(list(nll.values()))
        ppl = math.exp(mean.mean)
        figures = {
            "ppl": Estimate(ppl, ppl * mean.error, mean.items),
            "change": in_percent(paired(nll, baseline)),
            "kl": _mean(results, "perplexity", method, "kl"),
            "agreement": _mean(results, "perplexity", method, "agreement", 100),
        }
        rows.append(Row(method, figures))
    return rows


def needle_rows(results: Results) -> list[Row]:
    """found in percent and the change of the answer's nll, by length and over all."""
    rows = []
    for method in results.methods:
        found = results.values("needle", method, "found")
        if not found:
            continue
        nll = results.values("needle", method, "nll")
        base = results.values("needle", BASELINE, "nll")
        figures = {}
        lengths = sorted({int(item.split("/")[0]) for item in found})
        for length in lengths:
            of_length = [100 * x for item, x in found.items() if item.startswith(f"{length}/")]
            figures[str(length)] = estimate(of_length)
        figures["all"] = estimate([100 * x for x in found.values()])
        figures["nll change"] = paired(nll, base)
        rows.append(Row(method, figures))
    return rows


def continuation_rows(results: Results) -> list[Row]:
    """agreement in percent, tokens up to the first other one, identical in percent."""
    rows = []
    for method in results.methods:
        if results.values("continuation", method, "agreement"):
            figures = {
                "agreement": _mean(results, "continuation", method, "agreement", 100),
                "same_tokens": _mean(results, "continuation", method, "same_tokens"),
                "identical": _mean(results, "continuation", method, "identical", 100),
            }
            rows.append(Row(method, figures))
    return rows


def _mean(results: Results, task: str, method: str, value: str, factor: float = 1) -> Estimate:
    return estimate([factor * x for x in results.values(task, method, value).values()])


def summary(results: Results) -> dict[str, Any]:
    """All rows, for the results' file."""
    tables = {
        "perplexity": perplexity_rows(results),
        "needle": needle_rows(results),
        "continuation": continuation_rows(results),
    }
    return {
        task: {row.method: {name: _plain(x) for name, x in row.figures.items()} for row in rows}
        for task, rows in tables.items()
        if rows
    }


def _plain(figure: Estimate) -> dict[str, Any]:
    return {
        name: None if isinstance(x, float) and math.isnan(x) else x
        for name, x in asdict(figure).items()
    }
