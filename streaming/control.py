"""A folder through which the processes of one run communicate: requests to drain, and errors by name.

Spark keeps the planner (offsets, partitions) in a Python process of its own, whose errors arrive as text; and
only an idle query stops without errors in the log.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import orjson

from tailbit.base import errors
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import TailbitError


@dataclass(frozen=True, slots=True)
class Control:
    """The folder of one run, on the driver's host."""

    path: Path

    @classmethod
    def make(cls) -> Control:
        """Create a folder, private to this user."""
        return cls(Path(tempfile.mkdtemp(prefix="tailbit-run-")))

    def ask_to_drain(self) -> None:
        """Request that the current batch be the last."""
        (self.path / "drain").touch()

    @property
    def draining(self) -> bool:
        """Return whether a drain was requested, so that no further batch may start."""
        return (self.path / "drain").exists()

    def acknowledge(self) -> None:
        """Record that the planner has seen the request: no batch runs, and none will."""
        (self.path / "drained").touch()

    @property
    def drained(self) -> bool:
        """Return whether the query is idle for good."""
        return (self.path / "drained").exists()

    def answered(self) -> None:
        """Record that the planner has answered a question of Spark; a failure to record it is ignored."""
        with suppress(OSError):
            (self.path / "answered").touch()

    def polled(self) -> int:
        """Return a number that changes with each answer of the planner; only a change has a meaning."""
        try:
            return (self.path / "answered").stat().st_mtime_ns
        except OSError:
            return 0

    def report(self, error: TailbitError) -> None:
        """Save an error of the planner with its name and fields; a failure to save it is ignored."""
        fields = {name: value for name, value in error.fields.items() if isinstance(value, (str, int, float))}
        unfinished = self.path / "error.tmp"
        with suppress(OSError):
            unfinished.write_bytes(orjson.dumps({"error": type(error).__name__, "fields": fields}))
            unfinished.replace(self._error)

    def reported(self) -> TailbitError | None:
        """Return the error that the planner reported, with its class and fields; None if there is none."""
        if not self._error.exists():
            return None
        report = orjson.loads(self._error.read_bytes())
        return named_error(report["error"], report["fields"])

    @property
    def _error(self) -> Path:
        return self.path / "error.json"

    def remove(self) -> None:
        """Remove the folder; do nothing if it is gone already."""
        shutil.rmtree(self.path, ignore_errors=True)


def named_error(name: str, fields: dict[str, object]) -> TailbitError:
    """Return an error of the named class, or a plain TailbitError if there is no such class."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TailbitError):
        return kind(**fields)
    return TailbitError(reason=f"{name}: {fields}")
