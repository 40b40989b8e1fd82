"""Runs tasks and keeps their results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from mpfa.eval.methods import Method, Subject
from mpfa.eval.results import Results
from mpfa.eval.summary import summary
from mpfa.eval.tasks import Task


def run_tasks(
    tasks: list[Task],
    subject: Subject,
    methods: list[Method],
    results: Results,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Measures what `results` lacks, item by item, and saves after each.

    Where only some methods of an item are missing, the baseline, which comes first in `methods`,
    is run again: the others are compared with it.
    """
    say = _to_stderr if progress is None else progress
    for task in tasks:
        items = task.items()
        for number, item in enumerate(items, 1):
            missing = [x for x in methods if not results.has(task.name, item, x)]
            if not missing:
                continue
            start = time.monotonic()
            needed = missing if missing[0] == methods[0] else [methods[0], *missing]
            for method, values in task.run(subject, item, needed):
                results.add(task.name, item, method, values)
                results.save()
            seconds = time.monotonic() - start
            say(f"{task.name} {number}/{len(items)} ({item}): {seconds:.1f} s")
    results.save(summary(results))


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
