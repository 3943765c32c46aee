"""The result of a probe: a table of numbers, and what it was measured on.

In: named rows of numbers. Out: Markdown, or plain values for JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProbeResult:
    """The result of one probe of one model."""

    probe: str
    metric: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]  # a number for each column; None: not measured
    settings: Mapping[str, str | int]  # data and options
    n_decimals: int = 1

    def to_mapping(self) -> dict[str, Any]:
        return {
            "probe": self.probe,
            "metric": self.metric,
            "settings": dict(self.settings),
            "rows": {
                name: dict(zip(self.columns, numbers, strict=True))
                for name, numbers in self.rows.items()
            },
        }

    def to_markdown(self) -> str:
        """A Markdown table, followed by the settings."""
        lines = [
            "| " + " | ".join([self.metric, *self.columns]) + " |",
            "|---" * (len(self.columns) + 1) + "|",
            *(
                "| " + " | ".join([name, *map(self._format, numbers)]) + " |"
                for name, numbers in self.rows.items()
            ),
        ]
        settings = ", ".join(
            f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
            for name, value in self.settings.items()
        )
        return "\n".join([*lines, "", settings])

    def _format(self, number: float | None) -> str:
        return "" if number is None else f"{number:.{self.n_decimals}f}"
