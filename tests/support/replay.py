"""What Spark's statements leave in the folder of a test and what it answers, recorded and given again.

The statements of many tests are the same in every run. The files that each leaves are recorded with Spark's
answers (see `support.verdicts`), by a hash of the statement and of every file that was there before. A test
that runs again has the recorded files put in place, and starts no Spark. From the first statement or question
that is not recorded Spark is asked. A test that writes files itself between two statements is recorded as one
that needs Spark, unless it says by `forget_logs` that they are the same in every run; and so is one whose
files name its folder. `make proof` replays nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.profiles import PROOF
from support.spark_session import session_settings
from support.verdicts import RECORDING, Verdicts

Files = dict[str, bytes]

DERIVED = ("_tailbit", "-index", "-built", "-kept", "-none")
"""What names of folders end with that tailbit makes, not Spark."""

LIVE = "live"
"""The kind of what is recorded of a test that needs Spark."""

ROOT = "{root}"
"""The folder of the test in statements and answers."""

CHANGES = pa.struct([("path", pa.string()), ("content", pa.binary())])
"""A file that a statement writes; without content one that it deletes."""


class ReplayedSpark:
    """A session that starts when it is first used, with the recorded effects of statements in `replay`."""

    def __init__(self, start: Callable[[], Any], replay: Replay) -> None:
        self._start, self.replay = start, replay

    @cached_property
    def session(self) -> Any:
        return self._start()

    @property
    def is_started(self) -> bool:
        """Whether anything has been asked of the real session."""
        return "session" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        self.replay.notice_use()
        return getattr(self.session, name)


def write(spark: Any, what: object, act: Callable[[], object]) -> None:
    """Have Spark write by `act`; `what` it writes is a JSON value, by which its files are recorded."""
    if isinstance(spark, ReplayedSpark):
        spark.replay.run(what, act)
    else:
        act()


def answer(spark: Any, question: object, ask: Callable[[], Any]) -> Any:
    """Return what Spark answers to a question by `ask`; question and answer are JSON values."""
    return spark.replay.answer(question, ask) if isinstance(spark, ReplayedSpark) else ask()


def run(spark: Any, *statements: str, settings: Mapping[str, str] | None = None) -> None:
    """Run statements that write, under settings of the session."""

    def act() -> None:
        with session_settings(spark, settings or {}):
            spark.sql(statement)

    for statement in statements:
        write(spark, [statement, dict(settings or {})], act)


def forget_logs(spark: Any) -> None:
    """Spark forgets what it knows of logs: its files were changed, in the same way in every run."""
    if isinstance(spark, ReplayedSpark):
        spark.replay.take_files()
        if not spark.is_started:
            return
        spark = spark.session
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


class Replay:
    """The recorded statements and answers of one test, in the folder `root`."""

    def __init__(self, verdicts: Verdicts, test: str, root: Path) -> None:
        self._verdicts, self._test, self._root = verdicts, test, root
        self._is_live = PROOF or (not RECORDING and verdicts.recorded(LIVE, "", test) is not None)
        self._made: list[tuple[str, str, object, Any]] = []
        self._run: list[tuple[str, object]] = []
        self._files_left: Files = {}
        self._is_asking = False

    def notice_use(self) -> None:
        """Take the test for one that needs Spark, if it uses the session outside of what is recorded."""
        self._is_live |= not self._is_asking

    def take_files(self) -> None:
        """Take the files that are there for what the recorded statements left."""
        self._files_left = self._files()

    def run(self, statement: object, act: Callable[[], object]) -> None:
        """Run a statement by `act`, or put the files in place that it left when it was recorded."""
        before = self._files()

        def ask() -> pa.Array:
            act()
            return _changes(before, self._files())

        changes = self._asked("statement", statement, before, ask)
        if not self._is_live and not RECORDING:
            self._apply(changes)
        self.take_files()
        root = str(self._root).encode()
        if RECORDING and any(root in data for data in self._files_left.values()):
            self._is_live = True

    def answer(self, question: object, ask: Callable[[], Any]) -> Any:
        """Return Spark's answer to a question, a JSON value, as it was recorded or as `ask` gives it."""
        answer = self._asked("answer", question, self._files(), lambda: _moved(ask(), str(self._root), ROOT))
        return _moved(answer, ROOT, str(self._root))

    def _asked(self, kind: str, question: object, before: Files, ask: Callable[[], Any]) -> Any:
        """Return what is recorded; else ask Spark, and from then on always."""
        told, about = _moved(question, str(self._root), ROOT), _digest(before)
        if kind == "statement":
            # A table that is made anew by the same words has other files.
            again = self._run.count((about, told))
            self._run.append((about, told))
            about = f"{about} {again}" if again else about
        if not self._is_live and not RECORDING:
            for known in (f"{about} {self._test}", about):
                if (answer := self._verdicts.recorded(kind, known, told)) is not None:
                    return answer
            self._is_live = True
            self._verdicts.unrecorded += 1
        self._is_live |= before != self._files_left
        self._is_asking = True
        try:
            answer = ask()
        finally:
            self._is_asking = False
        self._made.append((kind, about, told, answer))
        return answer

    def close(self) -> None:
        """Record what the test asked, if this run records."""
        if RECORDING and self._is_live:
            self._made = [(LIVE, "", self._test, True)]
        for kind, about, told, answer in self._made if RECORDING else ():
            # Tests that begin alike do not find the same files after that.
            taken = self._verdicts.has_used(kind, about, told)
            self._verdicts.record(kind, f"{about} {self._test}" if taken else about, told, answer)

    def _files(self) -> Files:
        """Return the files in the folder of the test that Spark may have written, by their relative paths."""
        return {path.relative_to(self._root).as_posix(): path.read_bytes() for path in _listed(self._root)}

    def _apply(self, changes: pa.Array) -> None:
        for change in changes.to_pylist():
            path = self._root / change["path"]
            if change["content"] is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change["content"])


def _listed(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.endswith(DERIVED))
        yield from (
            Path(place, name) for name in sorted(names) if not (name[0] == "." and name.endswith(".crc"))
        )


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> pa.Array:
    """Return the files that were written and deleted, in the order of their paths."""
    written = [{"path": path, "content": data} for path, data in after.items() if before.get(path) != data]
    deleted = [{"path": path, "content": None} for path in before if path not in after]
    return pa.array([*written, *deleted], CHANGES)


def _digest(files: Mapping[str, bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for path, data in sorted(files.items()):
        hashed.update(f"{path}\0{len(data)}\0".encode())
        hashed.update(data)
    return hashed.hexdigest()


def _moved(value: Any, before: str, after: str) -> Any:
    """Return a JSON value, texts and keys of which name the folder of the test otherwise."""
    if isinstance(value, str):
        return value.replace(before, after)
    if isinstance(value, Mapping):
        return {_moved(key, before, after): _moved(item, before, after) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_moved(item, before, after) for item in value]
    return value
