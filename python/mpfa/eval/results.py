"""The results' file: records as they are measured, so that a run that ends early can go on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpfa.eval.methods import Method
from mpfa.eval.policies import POLICIES
from mpfa.eval.tasks import Values

_FORMAT = "mpfa-eval 1"


@dataclass
class Results:
    """Records (task, item, method) -> values, and what made them.

    `settings` are what all records depend on; a file with others is refused. Items, methods and
    tasks may be added to a file.
    """

    path: Path
    settings: dict[str, Any]
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    records: dict[tuple[str, str, str], Values] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, settings: dict[str, Any], restart: bool = False) -> Results:
        """What a file has already; empty where there is none or `restart` is set.

        Raises:
            ValueError: a file of other settings, or that is none of this tool's.
        """
        if restart or not path.exists():
            return cls(path, settings)
        found = cls.load(path)
        for name in {**found.settings, **settings}:
            old, new = found.settings.get(name), settings.get(name)
            if old != new:
                raise ValueError(
                    f"{path} was measured with {name} = {old!r}, now it is {new!r}: give the same,"
                    " another --output, or --restart"
                )
        return found

    @classmethod
    def load(cls, path: Path) -> Results:
        """Reads a file.

        Raises:
            ValueError: it is none of this tool's.
        """
        try:
            content = json.loads(path.read_text())
            if content["format"] != _FORMAT:
                raise KeyError("format")
            records = {(x["task"], x["item"], x["method"]): x["values"] for x in content["records"]}
            return cls(path, content["settings"], _in_order(content["methods"]), records)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no file of python -m mpfa.eval") from error

    def describe(self, method: Method, head_dim: int, group: int) -> None:
        """Notes what a method is."""
        policy = method.policy
        self.methods[method.name] = {
            "policy": policy.name,
            "description": policy.description,
            "statistics": method.statistics,
            "backend": method.backend,
            "k_bytes": policy.k_bytes(head_dim, group),
            "v_bytes": policy.v_bytes(head_dim),
        }
        self.methods = _in_order(self.methods)

    def has(self, task: str, item: str, method: Method) -> bool:
        """Whether this has been measured."""
        return (task, item, method.name) in self.records

    def add(self, task: str, item: str, method: Method, values: Values) -> None:
        """Takes a record; save() writes it."""
        self.records[task, item, method.name] = values

    def values(self, task: str, method: str, value: str) -> dict[str, float]:
        """A value of every item that was measured, by item."""
        return {
            item: x[value]
            for (of_task, item, of_method), x in self.records.items()
            if of_task == task and of_method == method
        }

    def save(self, summary: dict[str, Any] | None = None) -> None:
        """Writes the file, which appears whole or not at all."""
        content = {
            "format": _FORMAT,
            "settings": self.settings,
            "methods": self.methods,
            **({} if summary is None else {"summary": summary}),
            "records": [
                {"task": task, "item": item, "method": method, "values": values}
                for (task, item, method), values in self.records.items()
            ],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f"{self.path.name}.part")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(partial, self.path)


def _in_order(methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The methods in POLICIES' order, whichever was measured first."""
    order = list(POLICIES)
    return dict(sorted(methods.items(), key=lambda item: order.index(item[1]["policy"])))
