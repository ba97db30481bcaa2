"""A column whose keys do not fit in the memory of a task is written as one whose keys do."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import uuid
from decimal import Decimal
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.drive import Drive
from tailbit.errors import StorageError
from tailbit.index.kinds.value_counts import Tally, write_value_counts
from tailbit.index.roaring.coding import Coding, order_of_texts
from tailbit.index.roaring.elements import ElementCoding
from tailbit.index.write import posting
from tailbit.index.write.posting import SpillingCoding
from tailbit.tables.storage import open_storage
from tailbit.tables.storage.scratch import Scratch

ROWS = 3_000
random.seed(3)


def _text() -> str | None:
    kind = random.random()
    if kind < 0.1:
        return None
    if kind < 0.15:
        return ""
    if kind < 0.2:
        return random.choice("ab") * random.randrange(5_000)
    return f"customer-{random.randrange(2_000)}"


TEXTS = [_text() for _ in range(ROWS)]
COLUMNS: dict[str, tuple[pa.Array, str]] = {
    "texts": (pa.array(TEXTS), "string"),
    "binary": (pa.array([None if t is None else t.encode() for t in TEXTS]), "binary"),
    "no value": (pa.nulls(ROWS, pa.string()), "string"),
    "nulls, then texts": (pa.array([None] * 1_000 + TEXTS[1_000:], pa.string()), "string"),
    "wide decimals": (
        pa.array(
            [None if t is None else Decimal(len(t) * 10**30 + n) for n, t in enumerate(TEXTS)],
            pa.decimal128(38, 0),
        ),
        "decimal(0)",
    ),
    "decimals, some wide": (
        pa.array([Decimal(n if n < 1_500 else n * 10**25) for n in range(ROWS)], pa.decimal128(38, 0)),
        "decimal(0)",
    ),
}


class _Small(SpillingCoding):
    """A collector that holds one kilobyte of keys."""

    def __init__(self, type_: pa.DataType, key_type: str) -> None:
        super().__init__(type_, key_type, held_bytes=1_000)


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_and_codes_of_a_spilled_column_are_those_of_one_in_memory(name: str) -> None:
    values, key_type = COLUMNS[name]
    small, whole = _Small(values.type, key_type), Coding(values.type, key_type)
    for at in range(0, ROWS, 250):
        for coding in (small, whole):
            coding.add(at, pa.chunked_array([values.slice(at, 250)]))
    spilled, held = small.finish(), whole.finish()
    assert isinstance(spilled.keys, pa.Array) == (name == "no value")
    assert spilled.keys.slice(0, len(spilled.keys)).equals(held.keys)
    assert (spilled.codes(0, ROWS + 10) == held.codes(0, ROWS + 10)).all()


def test_keys_and_codes_of_spilled_elements_are_those_of_ones_in_memory() -> None:
    arrays = [None if n % 50 == 0 else TEXTS[n : n + n % 4] for n in range(ROWS)]
    values = pa.array(arrays, pa.list_(pa.string()))
    small = ElementCoding(values.type, "string", _Small)
    whole = ElementCoding(values.type, "string")
    for at in range(0, ROWS, 250):
        for coding in (small, whole):
            coding.add(at, pa.chunked_array([values.slice(at, 250)]))
    spilled, held = small.finish(), whole.finish()
    assert not isinstance(spilled.keys, pa.Array)
    assert spilled.keys.slice(0, len(spilled.keys)).equals(held.keys)
    assert spilled.keys.slice(1, 700).equals(held.keys.slice(1, 700))
    for one, other in zip(spilled.listed(0, ROWS), held.listed(0, ROWS), strict=True):
        assert (one == other).all()


def test_counts_of_spilled_keys_are_written_as_those_of_keys_in_memory(tmp_path: Path) -> None:
    values, key_type = COLUMNS["texts"]
    files = []
    for kind in (_Small, Coding):
        coding = kind(values.type, key_type)
        for at in range(0, ROWS, 250):
            coding.add(at, pa.chunked_array([values.slice(at, 250)]))
        keys = coding.finish().keys
        tally = Tally()
        tally.add("v", key_type, keys, np.arange(len(keys)) % 5 - 1)
        tally.add("v", key_type, pa.array([None, b"customer-1", b"zz"]), np.array([1, -2, 3]))
        folder = tmp_path / kind.__name__
        folder.mkdir()
        written = write_value_counts(open_storage(str(folder)), tally)
        assert written is not None
        files.append((folder / written.path).read_bytes())
    assert files[0] == files[1]


def test_few_keys_never_touch_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "no such folder"))
    coding = SpillingCoding(pa.string(), "string")
    coding.add(0, pa.chunked_array([pa.array(TEXTS)]))
    assert isinstance(coding.finish().keys, pa.Array)


def test_a_scratch_file_has_no_name_and_lies_in_sparks_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    scratch = Scratch()
    place = scratch.append(pa.py_buffer(b"some bytes"))
    assert scratch.read(place).to_pybytes() == b"some bytes"
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match="gone"):
        Scratch().append(pa.py_buffer(b"some bytes"))


def test_a_full_disk_under_a_scratch_file_is_an_error_of_storage_that_is_tried_again(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(StorageError) as refused:
            Scratch(str(tmp_path)).append(pa.py_buffer(bytes(20_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert refused.value.retryable


@pytest.mark.parametrize("prefix", [b"", b"https://example.org/", b"\0\0"])
def test_keys_sorted_by_their_leading_bytes_are_in_the_order_of_bytes(prefix: bytes) -> None:
    rng = random.Random(1)
    keys = {prefix + rng.randbytes(rng.choice([0, 1, 3, 8, 9, 30])) for _ in range(20_000)}
    keys |= {prefix + b"same words" + b"\0" * n for n in range(50)}
    some = list(keys)
    order = order_of_texts(pa.array(some, pa.binary()))
    assert order is not None
    assert [some[n] for n in order.tolist()] == sorted(some)


def test_keys_that_are_alike_in_their_leading_bytes_are_left_to_arrow() -> None:
    assert order_of_texts(pa.array([b"a" + b"-" * 20 + b"%d" % n for n in range(9_000)] + [b"b"])) is None


def test_files_of_an_index_are_the_same_bytes_whether_keys_were_spilled_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table(
        {
            "text": TEXTS,
            "elements": pa.array([TEXTS[n : n + n % 3] for n in range(ROWS)], pa.list_(pa.string())),
            "nested": [{"text": text} for text in reversed(TEXTS)],
        }
    )
    for at in range(0, ROWS, 1_000):
        write_deltalake(str(tmp_path / "t"), table.slice(at, 1_000), mode="append")
    built = []
    for held in (1 << 40, 1_000):
        numbers = count(1)
        monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) << 96 | next(numbers)))  # noqa: B023
        monkeypatch.setattr(posting, "HELD_BYTES", held)
        drive = Drive(
            str(tmp_path / "t"), str(tmp_path / f"index-{held}"), ["text", "elements", "nested.text"]
        )
        drive.drain()
        kinds = ("bitmap_index", "value_counts")
        files = [f for kind in kinds for f in (tmp_path / f"index-{held}" / f"kind={kind}").glob("*.parquet")]
        built.append({file.name: file.read_bytes() for file in files})
    assert len(built[0]) >= 2
    assert built[0] == built[1]


_CHILD = """
import pathlib, pyarrow as pa
from tailbit.index.write.posting import SpillingCoding
def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
def chunk(at):
    texts = [f"{n * 0x9E3779B97F4A7C15 % (1 << 64):0200x}" for n in range(at, at + 20_000)]
    return pa.chunked_array([pa.array(texts)])
chunk(0)
before, coding = peak(), SpillingCoding(pa.string(), "string", held_bytes=8 << 20)
for at in range(0, 1_000_000, 20_000):
    coding.add(at, chunk(at))
keys = coding.finish().keys
many = sum(len(keys.slice(at, 10_000)) for at in range(0, len(keys), 10_000))
print(many, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells the peak of one process")
def test_a_column_of_distinct_keys_is_coded_in_less_memory_than_the_keys_take() -> None:
    command = [sys.executable, "-c", _CHILD]
    many, grown = subprocess.check_output(command, text=True, cwd=Path(sys.executable).parent).split()
    assert int(many) == 1_000_000
    assert int(grown) < 190, "200 MB of keys, of which 8 MB may be held"


def test_bytes_that_all_keys_share_behind_others_are_left_out_of_the_order() -> None:
    random = np.random.default_rng(8)
    firsts, lasts = random.integers(0, 100, 9_000).tolist(), random.permutation(9_000).tolist()
    ends = [b"", b"\0", b"\0\0"]
    some = [b"%02d-shared-%d" % (a, b) + ends[b % 3] for a, b in zip(firsts, lasts, strict=True)]
    order = order_of_texts(pa.array(some, pa.binary()))
    assert order is not None
    assert [some[place] for place in order.tolist()] == sorted(some)
