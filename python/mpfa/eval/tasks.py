"""What every task of the harness is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mpfa.eval.methods import Method, Subject

Values = dict[str, float]


class Task(Protocol):
    """A measurement in items that are independent of each other, such as windows of a text."""

    name: str

    def items(self) -> list[str]:
        """The items' names, in order."""

    def run(
        self, subject: Subject, item: str, methods: list[Method]
    ) -> Iterator[tuple[Method, Values]]:
        """Measures an item under each method; the others are compared with the first."""
