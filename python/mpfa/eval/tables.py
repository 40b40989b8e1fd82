"""The report's tables, as rows of text; markdown and HTML are made of the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpfa.eval.policies import BASELINE
from mpfa.eval.results import Results
from mpfa.eval.summary import (
    Estimate,
    Row,
    continuation_rows,
    needle_rows,
    perplexity_rows,
)

_DEFAULT = "default"


@dataclass(frozen=True)
class Table:
    """A table with its title and what its columns mean."""

    title: str
    note: str
    header: list[str]
    rows: list[list[str]]  # the first cell is the method's name


def with_error(figure: Estimate, digits: int, sign: bool = False) -> str:
    """ "mean ± standard error", without the error of a single item."""
    text = f"{figure.mean:{'+' if sign else ''}.{digits}f}"
    return text if math.isnan(figure.error) else f"{text} ± {figure.error:.{digits}f}"


def all_tables(results: Results) -> list[Table]:
    """A table for each task that has results."""
    made = [
        _perplexity(results, perplexity_rows(results)),
        _needle(results, needle_rows(results)),
        _continuation(results, continuation_rows(results)),
        _methods(results),
    ]
    return [table for table in made if table.rows]


def _bytes(results: Results, method: str) -> list[str]:
    found = results.methods[method]
    return [f"{found['k_bytes']:g}", f"{found['v_bytes']:g}"]


def _perplexity(results: Results, rows: list[Row]) -> Table:
    counts = {row.figures["ppl"].items for row in rows}
    uneven = len(counts) > 1  # methods were added, or a run has ended early

    def cells(row: Row) -> list[str]:
        x = row.figures
        return [
            row.method,
            *_bytes(results, row.method),
            *([str(x["ppl"].items)] if uneven else []),
            with_error(x["ppl"], 2),
            "" if row.method == BASELINE else with_error(x["change"], 2, sign=True) + " %",
            with_error(x["kl"], 5),
            with_error(x["agreement"], 2),
        ]

    return Table(
        "Perplexity",
        f"{max(counts, default=0)} windows of {results.settings.get('window')} tokens. The change"
        " is paired: the standard error is of the windows' differences to BF16, not of the"
        " perplexity itself, which differs from window to window far more. KL is that of the next"
        " token's distribution from BF16's, in nats; same top token is the share of positions"
        " where both have the same most likely one.",
        [
            "method",
            "K bytes",
            "V bytes",
            *(["windows"] if uneven else []),
            "perplexity",
            "change",
            "KL",
            "same top token, %",
        ],
        [cells(row) for row in rows],
    )


def _needle(results: Results, rows: list[Row]) -> Table:
    lengths = [x for x in rows[0].figures if x.isdigit()] if rows else []

    def cells(row: Row) -> list[str]:
        x = row.figures
        change = "" if row.method == BASELINE else with_error(x["nll change"], 4, sign=True)
        found = [with_error(x[name], 0) if name in x else "" for name in (*lengths, "all")]
        return [row.method, *_bytes(results, row.method), *found, change]

    return Table(
        "Needle in a haystack",
        "Numbers found, in percent, by the length of the prompt in tokens, over all depths; and the"
        " paired change of the mean negative log likelihood of the number's tokens, in nats.",
        ["method", "K bytes", "V bytes", *lengths, "all", "change of nll"],
        [cells(row) for row in rows],
    )


def _continuation(results: Results, rows: list[Row]) -> Table:
    def cells(row: Row) -> list[str]:
        x = row.figures
        return [
            row.method,
            *_bytes(results, row.method),
            with_error(x["agreement"], 2),
            with_error(x["same_tokens"], 1),
            with_error(x["identical"], 0),
        ]

    items = max((row.figures["agreement"].items for row in rows), default=0)
    return Table(
        "Greedy continuations",
        f"{items} prompts of {results.settings.get('prompt_tokens')} tokens,"
        f" {results.settings.get('new_tokens')} new tokens each, one decode step a token along"
        " BF16's continuation: steps that choose the same token, in percent; tokens before the"
        " first other one; continuations that are the same as a whole, in percent.",
        ["method", "K bytes", "V bytes", "same token, %", "tokens alike", "identical, %"],
        [cells(row) for row in rows],
    )


def _methods(results: Results) -> Table:
    from mpfa.eval.methods import STATISTICS

    rows = []
    for name, found in results.methods.items():
        statistics = STATISTICS.get(found["statistics"], "none")
        rows.append([name, found["description"], statistics, found["backend"]])
    return Table(
        "Methods",
        "Names and definitions are those of mpfa compare and docs/spec.md, section 2. Computed by"
        " the library (MpfaCache, P in 16 bits or FP32), by torch, or emulated (P in e4m3).",
        ["method", "what it is", "statistics", "computed by"],
        rows,
    )


def is_highlighted(row: list[str]) -> bool:
    """Whether a row is the library's default."""
    return row[0] == _DEFAULT


def markdown(table: Table) -> str:
    """The table in GitHub's markdown, without its title and note."""
    lines = [table.header, ["---"] * len(table.header)]
    lines += [
        [f"**{cell}**" if cell and is_highlighted(row) else cell for cell in row]
        for row in table.rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plain(table: Table) -> str:
    """The table in columns, for a terminal."""
    rows = [table.header, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
    lines = []
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines) + "\n"
