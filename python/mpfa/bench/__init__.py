"""Speed and memory of generate() on the low-bit cache, beside transformers' own caches.

`python -m mpfa.bench`; docs/perf/python.md has what it measured on an H200.
"""
