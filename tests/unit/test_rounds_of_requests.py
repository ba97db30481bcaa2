"""How many requests of a cold question wait for one another, over a real S3 server behind a slow proxy.

Each answer takes `SLOW_S`; a round is a request that was made when an answer had come.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Proxy
from support.hudi_builder import HudiBuilder
from support.s3_server import Server
from support.stored import put_into
from support.tables import VECTORS
from tailbit.index.postings.segment import POSTINGS
from tailbit.streaming.settings import StreamSettings
from tailbit.tables import open_table
from tailbit.tables.storage import StorageOptions
from tailbit.tables.storage.requests import MOST

SLOW_S = 0.15
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
COMMITS = 100


def rows(number: int) -> pa.Table:
    keys = list(range(50 * number, 50 * number + 50))
    return pa.table({"k": keys, "v": [f"v{key % 7}" for key in keys]}, SCHEMA)


def delta(path: Path, commits: int, checkpointed: int = 0, hidden: int = 0) -> DeltaBuilder:
    """A table of one file a commit; rows are hidden in `hidden` of the files."""
    builder = DeltaBuilder(str(path)).create(SCHEMA, **VECTORS)
    for number in range(checkpointed):
        builder.commit([builder.data_file(rows(number), f"f{number}.parquet")])
    if checkpointed:
        builder.checkpoint(parts=3)
    for number in range(checkpointed, commits):
        builder.commit([builder.data_file(rows(number), f"f{number}.parquet")])
    for path_of_file in list(builder.live)[:hidden]:
        [vector] = builder.stored_vectors([0, 3])
        builder.commit(builder.hide(path_of_file, vector))
    return builder


def hudi(path: Path, commits: int) -> None:
    builder = HudiBuilder(str(path), 9, random.Random(5))
    for number in range(commits):
        requested = builder.timeline.request("commit")
        file = builder.data_file(rows(number), requested, builder.new_group(), "")[0]
        builder.commit(requested, [file], SCHEMA, "insert")


def put(root: str, s3_server: Server, path: Path) -> StorageOptions:
    """Put a table into the store, past the proxy."""
    options = StorageOptions.of(s3_server.options())
    put_into(root, options, path)
    return options


def built(root: str, options: StorageOptions, files: int) -> Drive:
    """Index the table in batches of some files, past the proxy."""
    drive = Drive(root, f"{root}/_tailbit", ["v"], StreamSettings(files=files, poll_ms=0), options=options)
    drive.drain()
    POSTINGS.clear()
    return drive


def cold(root: str, options: dict[str, str], s3: Proxy, condition: str | None) -> tailbit.answer.Answer:
    """The answer to a first question, counted; the proxy has seen all that it took."""
    with s3.slow(SLOW_S):
        answer = tailbit.open(root, storage_options=options).where(condition)
        answer.count()
    return answer


@pytest.mark.parametrize("checkpointed", [0, 40])
def test_a_cold_count_of_a_table_of_many_commits_takes_few_rounds(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str], checkpointed: int
) -> None:
    delta(tmp_path, COMMITS, checkpointed)
    built(s3_root, put(s3_root, s3_server, tmp_path), files=9)
    answer = cold(s3_root, s3_options, s3, "v IN ('v1', 'v3')")
    assert (answer.files_scanned, answer.count()) == (0, 50 * COMMITS * 2 // 7 + 1)
    assert s3.rounds() <= 11
    assert s3.most_at_once() <= MOST + 2


def test_a_cold_count_of_a_hudi_table_of_many_commits_takes_few_rounds(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str]
) -> None:
    hudi(tmp_path, 40)
    built(s3_root, put(s3_root, s3_server, tmp_path), files=9)
    answer = cold(s3_root, s3_options, s3, "v = 'v2'")
    assert (answer.files_scanned, answer.count()) == (0, 286)
    assert s3.rounds() <= 16


def test_hidden_rows_that_the_index_does_not_hold_are_read_at_once(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str]
) -> None:
    builder = delta(tmp_path, 24)
    options = put(s3_root, s3_server, tmp_path)
    built(s3_root, options, files=30)
    before = set(tmp_path.rglob("*"))
    for path in list(builder.live):
        [vector] = builder.stored_vectors([0, 3])
        builder.commit(builder.hide(path, vector))
    store = open_table(s3_root, options).storage
    for file in sorted(set(tmp_path.rglob("*")) - before, key=lambda f: ("_delta_log" in f.parts, f)):
        store.put(file.relative_to(tmp_path).as_posix(), file.read_bytes())
    answer = cold(s3_root, s3_options, s3, "v = 'v2'")
    assert answer.count() == tailbit.open(str(tmp_path)).count("v = 'v2'")
    assert answer.files_scanned == 0
    assert s3.rounds() <= 14


@pytest.mark.parametrize("format_", ["delta", "hudi"])
def test_a_scan_asks_for_the_head_of_no_file_twice_and_for_its_end_once(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str], format_: str
) -> None:
    (delta if format_ == "delta" else hudi)(tmp_path, 12)
    put(s3_root, s3_server, tmp_path)
    mark = len(s3.seen)
    answer = cold(s3_root, s3_options, s3, "v = 'v2' AND k > 100")
    assert answer.count() == tailbit.open(str(tmp_path)).count("v = 'v2' AND k > 100")
    asked = Counter(re.sub(r"/bucket/\w{32}/", "", request) for request in s3.since(mark))
    of_files = {request: count for request, count in asked.items() if request.endswith(".parquet")}
    assert {request.split()[0] for request in of_files} == {"HEAD", "GET"}
    assert set(of_files.values()) == {1}
    assert s3.rounds() <= (14 if format_ == "delta" else 20)


def test_a_warm_question_takes_hardly_more_than_one_round(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str]
) -> None:
    delta(tmp_path, 12)
    built(s3_root, put(s3_root, s3_server, tmp_path), files=5)
    opened = tailbit.open(s3_root, storage_options=s3_options)
    opened.count("v = 'v1'")
    with s3.slow(SLOW_S):
        opened.count("v = 'v1'")
    assert len(s3.spans) == 4
    assert s3.rounds() <= 2


def test_what_another_process_has_committed_is_read_at_once(
    tmp_path: Path, s3: Proxy, s3_root: str, s3_server: Server, s3_options: dict[str, str]
) -> None:
    builder = delta(tmp_path, 3)
    options = put(s3_root, s3_server, tmp_path)
    drive = built(s3_root, options, files=1)
    opened = tailbit.open(s3_root, storage_options=s3_options)
    assert opened.count("v = 'v1'") == 22
    store = open_table(s3_root, options).storage
    for number in range(3, 33):
        builder.commit([builder.data_file(rows(number), f"f{number}.parquet")])
        for name in (f"f{number}.parquet", f"_delta_log/{builder.version:020}.json"):
            store.put(name, (tmp_path / name).read_bytes())
    drive.drain()
    POSTINGS.clear()
    with s3.slow(SLOW_S):
        answer = opened.where("v = 'v1'")
        answer.count()
    assert (answer.files_scanned, answer.count()) == (0, tailbit.open(str(tmp_path)).count("v = 'v1'"))
    assert s3.rounds() <= 18
