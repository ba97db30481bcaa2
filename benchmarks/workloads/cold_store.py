"""How long does a first question take over an object store whose every answer takes a while?

A table with `commits` commits since its last log checkpoint, in a real S3 server on this machine behind a
proxy that holds each answer back for `delay` seconds. The index was built in batches of ten files. Each
question is asked by a handle that is opened for it, in this process, of which the caches are empty. `rounds`
is the longest chain of requests of which each began after the answer to the one before; imports are paid.

Usage: python workloads/cold_store.py [--commits N] [--delay S]. One line per format and question.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import tempfile
import time
from contextlib import ExitStack

import pyarrow as pa
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Proxy, proxy_to
from support.hudi_builder import HudiBuilder
from support.s3_server import Server, seaweed
from support.stored import put_into
from tailbit.index.postings.segment import POSTINGS
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.storage import StorageOptions

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
BEFORE = 20
"""Commits before the log checkpoint."""


def rows(number: int) -> pa.Table:
    keys = list(range(100 * number, 100 * number + 100))
    return pa.table({"k": keys, "v": [f"v{key % 7}" for key in keys]}, SCHEMA)


def delta(path: pathlib.Path, commits: int) -> None:
    """A table of one file a commit; a log checkpoint comes before the last `commits` of them."""
    builder = DeltaBuilder(str(path)).create(SCHEMA)
    for number in range(BEFORE + commits):
        builder.commit([builder.data_file(rows(number), f"f{number}.parquet")])
        if number == BEFORE - 1:
            builder.checkpoint()


def hudi(path: pathlib.Path, commits: int) -> None:
    """A table of one file group a commit."""
    builder = HudiBuilder(str(path), 9, random.Random(1))
    for number in range(BEFORE + commits):
        requested = builder.timeline.request("commit")
        file = builder.data_file(rows(number), requested, builder.new_group(), "")[0]
        builder.commit(requested, [file], SCHEMA, "insert")


def asked(
    root: str, options: dict[str, str], proxy: Proxy, delay: float, index: str, where: str | None
) -> None:
    """Ask a question with empty caches, and tell what it took."""
    POSTINGS.clear()
    with proxy.slow(delay):
        begun = time.perf_counter()
        count = tailbit.open(root, storage_options=options).count(where)
        seconds = time.perf_counter() - begun
    case = {"table": root.rpartition("/")[2], "index": index, "question": where or "all rows"}
    figures = {"s": round(seconds, 2), "requests": len(proxy.spans), "rounds": proxy.rounds()}
    tell({**case, "count": count, **figures})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--delay", type=float, default=0.2)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "s3").mkdir()
        server: Server = stack.enter_context(seaweed(folder / "s3"))
        proxy = stack.enter_context(proxy_to(server.port))
        direct = StorageOptions.of(server.options())
        for name, made in (("delta", delta), ("hudi", hudi)):
            root = f"s3://bucket/{name}"
            made(folder / name, given.commits)
            put_into(root, direct, DeltaBuilder(str(folder / name)))
            asked(root, server.options(proxy.port), proxy, given.delay, "none", "k = 77 AND v = 'v0'")
            settings = StreamSettings(files=10, poll_ms=0)
            Drive(root, f"{root}/_tailbit", ["v"], settings, options=direct).drain()
            for where in ("v = 'v1'", "v IN ('v1', 'v2') AND v <> 'v2'", None):
                asked(root, server.options(proxy.port), proxy, given.delay, "of v", where)


if __name__ == "__main__":
    main()
