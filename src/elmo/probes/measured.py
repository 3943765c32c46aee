"""What a probe gives: a table of numbers, for people and for programs.

In: named rows of numbers. Out: Markdown, or plain values ready for JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measured:
    """One probe of one model."""

    probe: str
    unit: str  # what the numbers are
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]  # by name, a number for each column; None: no such
    settings: Mapping[str, str | int]  # what was measured on, and how

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "probe": self.probe,
            "unit": self.unit,
            "settings": dict(self.settings),
            "rows": {
                name: dict(zip(self.columns, numbers, strict=True))
                for name, numbers in self.rows.items()
            },
        }

    def to_markdown(self) -> str:
        """The table, and under it what was measured on."""
        lines = [
            "| " + " | ".join([self.unit, *self.columns]) + " |",
            "|---" * (len(self.columns) + 1) + "|",
            *(
                "| " + " | ".join([name, *map(_shown, numbers)]) + " |"
                for name, numbers in self.rows.items()
            ),
        ]
        told = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in self.settings.items()
        )
        return "\n".join([*lines, "", told])


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def percent(part: float, whole: int) -> float:
    """A share of a hundred."""
    return 100 * part / whole
