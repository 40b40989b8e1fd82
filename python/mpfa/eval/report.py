"""The report of a results' file: HTML with a figure, in the look of `mpfa demo`'s, and markdown."""

from __future__ import annotations

from html import escape
from pathlib import Path

from mpfa.eval.figure import dot_plot
from mpfa.eval.policies import BASELINE
from mpfa.eval.results import Results
from mpfa.eval.summary import Estimate, continuation_rows, needle_rows, perplexity_rows
from mpfa.eval.tables import Table, all_tables, is_highlighted, markdown

_STYLE = """
:root { --ink: #1f2933; --soft: #5b6673; --line: #e3e7eb; --accent: #00798c; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #f6f8f9;
       font: 15px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 36px 24px 56px; }
h1 { font-size: 27px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 40px 0 8px; }
p { margin: 6px 0 12px; color: var(--soft); max-width: 104ch; }
.box { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px;
       margin: 12px 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px;
        font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: left; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
thead th { vertical-align: bottom; white-space: normal; font-size: 13px; color: var(--soft); }
tbody tr:last-child td { border-bottom: 0; }
.number { text-align: right; }
.highlight td { background: #e6f3f5; font-weight: 600; }
svg { width: 100%; height: auto; display: block; }
"""

# What a task's figure shows: its rows, the figure's name in them, the axis.
_FIGURES = {
    "Perplexity": (perplexity_rows, "change", "change of perplexity against BF16, %"),
    "Needle in a haystack": (
        needle_rows,
        "nll change",
        "change of the answer's negative log likelihood against BF16, nats",
    ),
    "Greedy continuations": (continuation_rows, "agreement", "steps with BF16's token, %"),
}


def write_reports(results: Results) -> list[Path]:
    """Writes the HTML and markdown beside the results' file; returns their paths."""
    tables = all_tables(results)
    pages = {
        results.path.with_suffix(".html"): html_page(results, tables),
        results.path.with_suffix(".md"): markdown_page(results, tables),
    }
    for path, text in pages.items():
        path.write_text(text)
    return list(pages)


def markdown_page(results: Results, tables: list[Table]) -> str:
    """All tables in markdown."""
    parts = [f"# Accuracy of {results.settings.get('model')}\n\n{_settings_line(results)}\n"]
    parts += [f"## {table.title}\n\n{table.note}\n\n{markdown(table)}" for table in tables]
    return "\n".join(parts)


def html_page(results: Results, tables: list[Table]) -> str:
    """The page, complete in one file."""
    model = escape(str(results.settings.get("model")))
    body = [
        f"<h1>MpFA: accuracy of {model}</h1>\n<p>{escape(_settings_line(results))}</p>\n",
    ]
    for table in tables:
        body.append(f"<h2>{escape(table.title)}</h2>\n<p>{escape(table.note)}</p>\n")
        body.append(_figure(results, table.title))
        body.append(_html_table(table))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>MpFA accuracy</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "".join(body)
        + "</main>\n</body>\n</html>\n"
    )


def _settings_line(results: Results) -> str:
    return "; ".join(f"{name} {value}" for name, value in results.settings.items()) + "."


def _figure(results: Results, title: str) -> str:
    if title not in _FIGURES:
        return ""
    rows_of, name, axis = _FIGURES[title]
    rows: list[tuple[str, Estimate]] = [
        (row.method, row.figures[name]) for row in rows_of(results) if row.method != BASELINE
    ]
    if not rows:
        return ""
    return f'<div class="box">\n{dot_plot(rows, axis, highlight="default")}\n</div>\n'


def _html_table(table: Table) -> str:
    numeric = [
        all(not row[i] or row[i].lstrip("+-")[:1].isdigit() for row in table.rows)
        for i in range(len(table.header))
    ]

    def line(cells: list[str], tag: str, of: str = "") -> str:
        kinds = [' class="number"' if number else "" for number in numeric]
        made = "".join(
            f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True)
        )
        return f"<tr{of}>{made}</tr>\n"

    rows = "".join(
        line(row, "td", ' class="highlight"' if is_highlighted(row) else "") for row in table.rows
    )
    head = line(table.header, "th")
    body = f"<table><thead>\n{head}</thead><tbody>\n{rows}</tbody></table>"
    return f'<div class="box">\n{body}\n</div>\n'
