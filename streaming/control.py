"""The folder of one query: its processes communicate through it, and Spark keeps its checkpoint in it.

Spark keeps the planner (offsets, partitions) in a Python process of its own, whose errors arrive as text; and
only an idle query stops without errors in the log. The checkpoint is new for each query: the ledger of the
index says where the stream goes on, so nothing of an earlier checkpoint is worth keeping.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from tailbit import errors
from tailbit.errors import StorageError, TailbitError


@dataclass(frozen=True, slots=True)
class Control:
    """The folder of one query, on the driver's host; `checkpoint`: the place of Spark's checkpoint."""

    path: Path
    checkpoint: str = ""

    @classmethod
    def make(cls, place: str | None = None) -> Control:
        """Create a folder, private to this user; in `place`, where Spark's checkpoint goes, if that is local.

        Raises:
            StorageError: the folder cannot be made: the disk is full, or `place` has vanished.
        """
        remote = place is not None and is_remote(place)
        try:
            path = Path(tempfile.mkdtemp(prefix="tailbit-run-", dir=None if remote else place))
        except OSError as refused:
            reason = f"no folder can be made there for Spark's checkpoint: {refused.strerror}"
            raise StorageError(path=place or tempfile.gettempdir(), reason=reason) from refused
        return cls(path, f"{place}/{path.name}" if remote else f"file://{path / 'checkpoint'}")

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
        """Return a number that changes after each answer of the planner."""
        try:
            return (self.path / "answered").stat().st_mtime_ns
        except OSError:
            return 0

    def report(self, error: TailbitError) -> None:
        """Save an error of the planner with its name and fields."""
        fields = {name: value for name, value in error.fields.items() if isinstance(value, (str, int, float))}
        self._error.write_bytes(orjson.dumps({"error": type(error).__name__, "fields": fields}))

    def reported(self) -> TailbitError | None:
        """Return the error that the planner reported, as it was raised."""
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


def is_remote(place: str) -> bool:
    """Return whether the place of a checkpoint is reached by Spark alone, as in an object store."""
    return "://" in place


def named_error(name: str, fields: dict[str, object]) -> TailbitError:
    """Return an error of the named class, or a plain TailbitError if there is no such class."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, TailbitError):
        return kind(**fields)
    return TailbitError(reason=f"{name}: {fields}")
