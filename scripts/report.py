#!/usr/bin/env python3
"""Draws the figures of `mpfa demo` with matplotlib.

    report.py report/demo.json                               prints [{"id", "caption", "svg"}]
    report.py report/demo.json --png docs/images/demo.png    writes the README's picture instead

The JSON is what the demo writes (tools/README.md lists its keys). Exits with 3 where matplotlib is
missing, so that the demo can say how to get it.
"""

import argparse
import io
import json
import sys

NO_MATPLOTLIB = 3

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError as error:
    print(f"matplotlib cannot be imported: {error}", file=sys.stderr)
    sys.exit(NO_MATPLOTLIB)

INK = "#1f2933"
FAINT = "#8a94a0"
GRID = "#e3e7eb"
COLORS = {
    "bf16": "#9aa5b1",
    "fp8_k": "#9aa5b1",
    "nvfp4_naive": "#d1495b",
    "paper": "#e8a33d",
    "mpfa_r0": "#5fb3b3",
    "mpfa_default": "#00798c",
}
PARTS = (
    ("k", "K", "#00798c"),
    ("compensation", "residual or delta_s", "#e8a33d"),
    ("v", "V", "#9fc9cf"),
)
LAYER_MARKERS = "osD^vP*X"
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def set_style():
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.color": INK,
            "ytick.color": INK,
            "ytick.major.size": 0,
            "svg.hashsalt": "mpfa",
            "figure.facecolor": "white",
        }
    )


def method_labels(demo):
    """Name, bytes and ratio of each method, from the top of the figure down."""
    return [
        f"{m['name']}\n{m['bytes_per_token_and_kv_head']:g} bytes, {m['ratio']:.2f}x smaller"
        if m["ratio"] > 1
        else f"{m['name']}\n{m['bytes_per_token_and_kv_head']:g} bytes"
        for m in demo["mean"]
    ]


def label_methods(axes, demo):
    rows = range(len(demo["mean"]))
    axes.set_yticks(list(rows), method_labels(demo))
    for label, method in zip(axes.get_yticklabels(), demo["mean"], strict=True):
        if not method["emulated"]:
            label.set_fontweight("bold")
    axes.set_ylim(len(rows) - 0.4, -0.6)


def draw_errors(axes, demo, phase):
    """One bar per method (mean over layers), one mark per layer."""
    key = f"{phase}_relative_l2"
    means = [m[key] for m in demo["mean"]]
    top = max([m[key] for layer in demo["layers"] for m in layer["methods"]])
    axes.barh(
        range(len(means)), means, height=0.62, color=[COLORS[m["method"]] for m in demo["mean"]]
    )
    for index, layer in enumerate(demo["layers"]):
        axes.scatter(
            [m[key] for m in layer["methods"]],
            range(len(means)),
            s=16,
            zorder=3,
            marker=LAYER_MARKERS[index % len(LAYER_MARKERS)],
            facecolor="white",
            edgecolor=INK,
            linewidth=0.8,
            label=layer["layer"] or "layer",
        )
    for row, mean in enumerate(means):
        layers = [layer["methods"][row][key] for layer in demo["layers"]]
        axes.text(max([mean, *layers]) + 0.035 * top, row, f"{mean:.4f}", va="center", fontsize=8.5)
    axes.set_xlim(0, 1.2 * top)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("relative L2 error (lower is better)")


def draw_bytes(axes, demo):
    """Stacked bytes per token and KV head."""
    total_bf16 = max(item["k"] + item["v"] for item in demo["bytes"])
    for row, item in enumerate(demo["bytes"]):
        left = 0.0
        for key, _, color in PARTS:
            axes.barh(row, item[key], left=left, height=0.62, color=color)
            if item[key] > 0.09 * total_bf16:
                axes.text(
                    left + item[key] / 2,
                    row,
                    f"{item[key]:g}",
                    va="center",
                    ha="center",
                    color="white" if key == "k" else INK,
                    fontsize=8,
                )
            left += item[key]
        axes.text(left + 0.015 * total_bf16, row, f"{left:g}", va="center", fontsize=8.5)
    for key, name, color in PARTS:
        if any(item[key] > 0 for item in demo["bytes"]):
            axes.barh(0, 0, color=color, label=name)
    axes.set_xlim(0, 1.13 * total_bf16)
    axes.set_xlabel("bytes per token and KV head")
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def errors_figure(demo):
    figure, (prefill, decode) = plt.subplots(1, 2, figsize=(9.4, 3.7), sharey=True)
    for axes, phase in ((prefill, "prefill"), (decode, "decode")):
        draw_errors(axes, demo, phase)
    prefill.set_title(f"Prefill of {demo['prompt_tokens']} tokens")
    decode.set_title(f"{demo['decode_steps']} decode steps")
    label_methods(prefill, demo)
    decode.legend(loc="lower right", frameon=False, fontsize=8)
    figure.tight_layout()
    caption = (
        "Error of the attention output against FP64 attention over the unquantised input. "
        "Bars are the mean over layers and heads, marks the single layers. Bold: measured "
        "through this library's cache and attention; the others are emulated."
    )
    return figure, caption


def channel_panel(axes, values, scale, title, first_token):
    """A histogram over the lines of the values that NVFP4 has at this scale."""
    margin = 0.08 * (max(0.0, *values) - min(0.0, *values))
    low = min(0.0, *values) - margin
    high = max(0.0, *values) + margin
    for magnitude in E2M1_VALUES:
        for level in {scale * magnitude, -scale * magnitude}:
            if low <= level <= high:
                axes.axvline(level, color="#d1495b", linewidth=0.8, alpha=0.75, zorder=1)
    axes.hist(values, bins=40, color="#00798c", alpha=0.85, zorder=2)
    if first_token:
        axes.annotate(
            "first token",
            (values[0], 1),
            (values[0], 0.18),
            ha="center",
            fontsize=8,
            textcoords=("data", "axes fraction"),
            arrowprops={"arrowstyle": "->", "color": INK},
        )
    axes.set_title(title)
    axes.set_ylabel("tokens")
    axes.set_xlim(low, high)
    axes.tick_params(axis="y", size=3)


def channel_figure(demo):
    channel = demo["channel"]
    figure, (before, after) = plt.subplots(1, 2, figsize=(9.4, 2.9))
    outlier = abs(channel["after"][0]) == max(abs(x) for x in channel["after"])
    channel_panel(
        before, channel["before"], channel["scale_before"], "As the model made it", outlier
    )
    channel_panel(after, channel["after"], channel["scale_after"], "Centred", outlier)
    where = f"{channel['layer']}, KV head {channel['kv_head']}, channel {channel['channel']}"
    for axes in (before, after):
        axes.set_xlabel(f"K, {where}")
    figure.tight_layout()
    ratio = channel["scale_before"] / channel["scale_after"]
    caption = (
        f"One strong channel of K ({where}). Red lines are the values that NVFP4 can hold "
        f"at the median scale of the channel's blocks. The constant part sets the scale for "
        f"all 16 channels of a block; without it the scale is {ratio:.1f} times finer."
    )
    if outlier:
        caption += (
            " The first token, an attention sink, becomes an outlier: k_first keeps its "
            "rounding error."
        )
    return figure, caption


def bytes_figure(demo):
    figure, axes = plt.subplots(figsize=(9.4, 3.2))
    draw_bytes(axes, demo)
    label_methods(axes, demo)
    figure.tight_layout()
    caption = (
        f"What one token takes per KV head, d = {demo['head_dim']}: K (codes and scales), "
        "what corrects K's rounding, and V."
    )
    return figure, caption


def readme_figure(demo):
    """Memory and accuracy in one row of panels that share the methods."""
    figure, (size, prefill, decode) = plt.subplots(1, 3, figsize=(11.4, 3.7), sharey=True)
    draw_bytes(size, demo)
    draw_errors(prefill, demo, "prefill")
    draw_errors(decode, demo, "decode")
    size.set_title("KV cache")
    prefill.set_title(f"Error, prefill of {demo['prompt_tokens']} tokens")
    decode.set_title(f"Error, {demo['decode_steps']} decode steps")
    label_methods(size, demo)
    decode.legend(loc="lower right", frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def svg_text(figure):
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", help="report/demo.json, as mpfa demo writes it")
    parser.add_argument("--png", metavar="FILE", help="write the README's picture instead")
    options = parser.parse_args()
    with open(options.json, encoding="utf-8") as file:
        demo = json.load(file)
    set_style()
    if options.png:
        readme_figure(demo).savefig(options.png, dpi=144)
        return
    figures = []
    for identifier, draw in (
        ("errors", errors_figure),
        ("channel", channel_figure),
        ("bytes", bytes_figure),
    ):
        figure, caption = draw(demo)
        figures.append({"id": identifier, "caption": caption, "svg": svg_text(figure)})
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
