"""A figure of means with error bars, as SVG: no drawing library is needed, and the same results
give the same bytes."""

from __future__ import annotations

import math
from html import escape

from mpfa.eval.summary import Estimate

_INK, _SOFT, _LINE, _ACCENT = "#1f2933", "#5b6673", "#e3e7eb", "#00798c"
_ROW = 22  # pixels
_LABELS, _PLOT, _NUMBERS = 230, 560, 130
_TOP, _BOTTOM = 12, 44


def dot_plot(rows: list[tuple[str, Estimate]], axis: str, highlight: str = "") -> str:
    """One row a method: a dot at its mean, a line of one standard error to each side.

    Args:
        rows: names and figures, from top to bottom; at least one.
        axis: what the values are, with unit.
        highlight: the name that is drawn in the accent colour.
    """
    lows = [x.mean - _finite(x.error) for _, x in rows]
    highs = [x.mean + _finite(x.error) for _, x in rows]
    ticks = _ticks(min(0.0, *lows), max(0.0, *highs))
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> float:
        return _LABELS + (value - low) / (high - low) * _PLOT

    bottom = _TOP + _ROW * len(rows)
    width, height = _LABELS + _PLOT + _NUMBERS, bottom + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif" font-size="13">'
    ]
    for tick in ticks:
        x = place(tick)
        colour = _SOFT if tick == 0 else _LINE
        parts.append(
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>'
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" fill="{_SOFT}">'
            f"{tick:g}</text>"
        )
    for number, (name, figure) in enumerate(rows):
        parts.append(_row(name, figure, _TOP + _ROW * (number + 0.5), place, name == highlight))
    parts.append(
        f'<text x="{_LABELS + _PLOT / 2}" y="{bottom + 36}" text-anchor="middle" fill="{_SOFT}">'
        f"{escape(axis)}</text></svg>"
    )
    return "\n".join(parts)


def _row(name: str, figure: Estimate, y: float, place, accent: bool) -> str:
    error = _finite(figure.error)
    left, right = place(figure.mean - error), place(figure.mean + error)
    colour, weight = (_ACCENT, "600") if accent else (_INK, "400")
    number = f"{figure.mean:.3g}" + (f" ± {error:.2g}" if error > 0 else "")
    return (
        f'<text x="{_LABELS - 12}" y="{y + 4:.1f}" text-anchor="end" fill="{colour}"'
        f' font-weight="{weight}">{escape(name)}</text>'
        f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{colour}"'
        ' stroke-width="2"/>'
        f'<circle cx="{place(figure.mean):.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        f'<text x="{_LABELS + _PLOT + 12}" y="{y + 4:.1f}" fill="{_SOFT}">{number}</text>'
    )


def _finite(error: float) -> float:
    return 0.0 if math.isnan(error) else error


def _ticks(low: float, high: float) -> list[float]:
    """Round values, 4 to 10 of them, that span [low, high]."""
    span = max(high - low, 1e-9)
    step = 10 ** math.floor(math.log10(span / 4))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= 8:
            step *= factor
            break
    first, last = math.floor(low / step), math.ceil(high / step)
    return [i * step for i in range(first, max(last, first + 1) + 1)]
