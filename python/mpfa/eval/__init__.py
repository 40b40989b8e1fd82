"""Accuracy of a model on low-bit KV caches: perplexity, needles in haystacks, greedy continuations.

`python -m mpfa.eval --help` tells how to run it; docs/accuracy.md shows what it finds.
"""
