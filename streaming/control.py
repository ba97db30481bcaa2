"""A folder through which the processes of one run talk: requests to drain, and errors by name.

Spark keeps the planner (offsets, partitions) in a Python process of its own, whose errors arrive as text; and
an idle query is the only one that stops without noise.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from tailbit import errors
from tailbit.errors import TailbitError


@dataclass(frozen=True, slots=True)
class Control:
    """The folder of one run, on the driver's host."""

    path: Path

    @classmethod
    def make(cls) -> Control:
        """A fresh folder, private to this user."""
        return cls(Path(tempfile.mkdtemp(prefix="tailbit-run-")))

    def ask_to_drain(self) -> None:
        """Let the batch in flight be the last."""
        (self.path / "drain").touch()

    @property
    def draining(self) -> bool:
        """Whether no further batch may start."""
        return (self.path / "drain").exists()

    def acknowledge(self) -> None:
        """The planner has seen the request: no batch runs, and none will."""
        (self.path / "drained").touch()

    @property
    def drained(self) -> bool:
        """Whether the query is idle for good."""
        return (self.path / "drained").exists()

    def answered(self) -> None:
        """The planner has answered a question of Spark; where that cannot be noted, it is not."""
        with suppress(OSError):
            (self.path / "answered").touch()

    def polled(self) -> int:
        """Another number after each answer of the planner."""
        try:
            return (self.path / "answered").stat().st_mtime_ns
        except OSError:
            return 0

    def report(self, error: TailbitError) -> None:
        """Keep an error of the planner by its name and fields."""
        fields = {name: value for name, value in error.fields.items() if isinstance(value, (str, int, float))}
        self._error.write_bytes(orjson.dumps({"error": type(error).__name__, "fields": fields}))

    def reported(self) -> TailbitError | None:
        """The error that the planner reported, as it was raised."""
        if not self._error.exists():
            return None
        told = orjson.loads(self._error.read_bytes())
        return named_error(told["error"], told["fields"])

    @property
    def _error(self) -> Path:
        return self.path / "error.json"

    def remove(self) -> None:
        """Take the folder away; nothing where it is gone already."""
        shutil.rmtree(self.path, ignore_errors=True)


def named_error(name: str, fields: dict[str, object]) -> TailbitError:
    """The error of that class name, a plain TailbitError where there is none."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TailbitError):
        return kind(**fields)
    return TailbitError(reason=f"{name}: {fields}")
