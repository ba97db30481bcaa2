"""Spark's answers to constant questions, recorded in `tests/verdicts` and compared with ours ever after.

The random conditions, the cells and the tables of many tests are the same in every run, and so is the release
of Spark: it would answer the same again. `make test` takes the recorded answers; a question without one is
asked of Spark, and the run says at its end how many were. `make proof` asks Spark all of them and fails where
its answer is not the recorded one; `make verdicts` records them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyspark

from support.profiles import PROOF

Q = TypeVar("Q")

FOLDER = Path(__file__).parents[1] / "verdicts"

RECORDING = bool(os.environ.get("TAILBIT_RECORD_VERDICTS"))
"""Whether Spark is asked everything and the record written."""


class Verdicts:
    """The recorded answers of one test module: JSON values and Arrow arrays by question.

    A question is any JSON value; its key is a hash of it, of its kind, of what it is asked about, and of the
    release of Spark.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._answers, self._used = path, read(path), set[bytes]()
        self.unrecorded = 0

    def answers(
        self, kind: str, questions: Sequence[Q], ask: Callable[[Sequence[Q]], Sequence[Any]], about: str = ""
    ) -> list[Any]:
        """Return the answer to each question; `ask` has Spark answer those that must be asked.

        `about`: a digest of the table that is asked, and the settings.

        Raises:
            AssertionError: Spark's answer is not the recorded one.
        """
        keys = [key_of(kind, about, question) for question in questions]
        again = PROOF or RECORDING
        places = [n for n, key in enumerate(keys) if again or key not in self._answers]
        if places:
            replies = ask([questions[n] for n in places])
            for n, reply in zip(places, replies, strict=True):
                self._note(keys[n], encoded(reply), questions[n])
        self._used.update(keys)
        return [decoded(self._answers[key]) for key in keys]

    def recorded(self, kind: str, about: str, question: object) -> Any:
        """Return the recorded answer to one question; None if there is none."""
        key = key_of(kind, about, question)
        self._used.add(key)
        return decoded(self._answers[key]) if key in self._answers else None

    def has_used(self, kind: str, about: str, question: object) -> bool:
        """Return whether this run has asked for the answer to a question, or recorded it."""
        return key_of(kind, about, question) in self._used

    def record(self, kind: str, about: str, question: object, answer: Any) -> None:
        key = key_of(kind, about, question)
        self._used.add(key)
        self._answers[key] = encoded(answer)

    def _note(self, key: bytes, answer: bytes, question: object) -> None:
        before = self._answers.get(key)
        if PROOF and before is not None:
            # Encoded anew, since releases of Arrow may write the same array otherwise.
            assert encoded(decoded(before)) == answer, f"Spark's answer is not the recorded one: {question}"
        self.unrecorded += before is None
        self._answers[key] = answer

    def save(self) -> None:
        """Write the answers that were used, if this run records."""
        if RECORDING:
            used = sorted(self._used & self._answers.keys())
            table = pa.table({"key": used, "answer": [self._answers[key] for key in used]}, SCHEMA)
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._path.parent.mkdir(exist_ok=True)
            with pa.ipc.new_file(str(self._path), SCHEMA, options=options) as out:
                out.write_table(table)


SCHEMA = pa.schema([("key", pa.binary(16)), ("answer", pa.binary())])


def read(path: Path) -> dict[bytes, bytes]:
    """Return the recorded answers by key; none if there is no record."""
    if not path.exists():
        return {}
    table = pa.ipc.open_file(str(path)).read_all()
    return dict(zip(table["key"].to_pylist(), table["answer"].to_pylist(), strict=True))


def key_of(kind: str, about: str, question: object) -> bytes:
    text = json.dumps([pyspark.__version__, kind, about, question])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def digest_of(table: pa.Table) -> str:
    """Return a digest of the rows and types of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table.combine_chunks())
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def encoded(answer: Any) -> bytes:
    """Return an answer as bytes: an Arrow array as a stream of Arrow, anything else as JSON."""
    if not isinstance(answer, pa.Array):
        return b"J" + json.dumps(answer).encode()
    batch, sink = pa.record_batch({"": answer}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
    return b"A" + bytes(sink.getvalue())


def decoded(answer: bytes) -> Any:
    """Return the answer of some bytes (see `encoded`)."""
    if answer[:1] == b"J":
        return json.loads(answer[1:])
    return pa.ipc.open_stream(answer[1:]).read_all()[""].combine_chunks()
