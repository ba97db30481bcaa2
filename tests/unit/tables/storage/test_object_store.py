"""An object store before which networks fail, credentials are wrong, and others write: a real S3 server."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.errors import StorageError, UnusableStorageError
from tailbit.tables.parquet.file import ParquetFile
from tailbit.tables.storage import NO_OPTIONS
from tailbit.tables.storage.object_store import AHEAD, FAR_AHEAD, TAIL, Ranges
from tailbit.tables.storage.refusals import refusal

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

from support.faulty_proxy import Fault, Proxy, Request
from support.s3_server import SECRET, rclone
from tailbit.errors import NoConditionalPutError, UnsafePathError, UsageError
from tailbit.tables.storage import Storage, StorageOptions, one_look, open_storage


@pytest.fixture
def storage(s3_root: str, s3_options: dict[str, str]) -> Storage:
    """An empty place in the S3 server, behind the proxy."""
    return open_storage(s3_root, StorageOptions.of(s3_options))


@pytest.fixture
def hasty(s3_root: str, s3_options: dict[str, str]) -> Storage:
    """The same, for a client that waits for a second."""
    return open_storage(s3_root, StorageOptions.of({**s3_options, "timeout": "1s"}))


def any_put(request: Request) -> bool:
    return request.method == "PUT"


def any_read(request: Request) -> bool:
    return request.method in ("GET", "HEAD")


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.SLOW])
def test_a_read_that_fails_on_the_way_is_tried_again(hasty: Storage, s3: Proxy, fault: Fault) -> None:
    hasty.put("x", b"hello")
    with s3.failing(fault, 2, any_read) as met:
        assert hasty.read("x") == b"hello"
        assert hasty.stat("x") is not None
    assert len(met) == 2


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.SLOW, Fault.REPLY_LOST, Fault.BUSY_AFTER])
def test_a_conditional_put_whose_reply_is_lost_is_known_as_ones_own(
    hasty: Storage, s3: Proxy, fault: Fault
) -> None:
    with s3.failing(fault, 1, any_put) as met:
        hasty.put_if_absent("commit", b"mine")
    assert len(met) == 1
    assert hasty.read("commit") == b"mine"
    with pytest.raises(FileExistsError):
        hasty.put_if_absent("commit", b"another")


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.REPLY_LOST, Fault.BUSY_AFTER])
def test_a_conditional_put_that_fails_on_the_way_never_takes_the_place_of_another(
    storage: Storage, s3: Proxy, fault: Fault
) -> None:
    storage.put("commit", b"theirs")
    with s3.failing(fault, 1, any_put), pytest.raises(FileExistsError):
        storage.put_if_absent("commit", b"mine")
    assert storage.read("commit") == b"theirs"


def test_of_two_writers_whose_replies_are_lost_one_wins(storage: Storage, s3: Proxy) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        try:
            storage.put_if_absent("commit", bytes([number]) * 1000)
            won.append(number)
        except FileExistsError:
            pass

    with s3.failing(Fault.REPLY_LOST, 2, any_put):
        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [storage.read("commit")[0]] == won


def test_a_store_that_stays_busy_is_a_named_error_within_the_retries(storage: Storage, s3: Proxy) -> None:
    with s3.failing(Fault.BUSY, 1000, lambda request: True) as met:
        with pytest.raises(StorageError, match=r"busy and asks for fewer requests \(503 SlowDown\)"):
            storage.read("x")
        assert len(met) == 5


def test_a_store_that_cannot_be_reached_is_a_named_error(s3_root: str, s3_options: dict[str, str]) -> None:
    dead = {**s3_options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "max_retries": "1"}
    with pytest.raises(StorageError, match="does not answer") as caught:
        open_storage(s3_root, StorageOptions.of(dead)).read("x")
    assert "endpoint" in caught.value.hint


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_credentials_are_refused_without_being_shown(
    s3_root: str, s3_options: dict[str, str], name: str
) -> None:
    wrong = open_storage(s3_root, StorageOptions.of({**s3_options, name: "wr0ngwr0ng"}))
    for act in (lambda: wrong.read("x"), wrong.list, lambda: wrong.put("x", b""), lambda: wrong.stat("x")):
        with pytest.raises(StorageError, match="denies access with these credentials") as caught:
            act()
        shown = f"{caught.value.describe()} {caught.value!r} {wrong!r} {pickle.dumps(caught.value)!r}"
        assert "wr0ng" not in shown
        assert SECRET not in shown
        assert "--storage-option" in caught.value.hint


def test_permission_that_is_lost_is_a_named_error(storage: Storage, s3: Proxy) -> None:
    storage.put("x", b"hello")
    with s3.failing(Fault.DENIED, 1, any_put), pytest.raises(StorageError, match="403 AccessDenied"):
        storage.put("x", b"again")
    assert storage.read("x") == b"hello"


def test_a_missing_bucket_is_refused_by_name(s3_options: dict[str, str]) -> None:
    with pytest.raises(StorageError, match=r"s3://no-such-bucket/.*there is no such bucket"):
        open_storage("s3://no-such-bucket/table", StorageOptions.of(s3_options)).exists("_delta_log")


def test_no_credentials_at_all_are_refused_by_name(
    s3_root: str, s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    given = {n: v for n, v in s3_options.items() if "KEY" not in n} | {"max_retries": "0"}
    with pytest.raises(StorageError, match="no credentials are given"):
        open_storage(s3_root, StorageOptions.of(given)).read("x")
    with pytest.raises(StorageError, match="Missing SecretAccessKey"):
        open_storage(s3_root, StorageOptions.of({**given, "AWS_ACCESS_KEY_ID": "A"})).read("x")


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_NO_SUCH", "x"), ("max_retries", "many"), ("retry_timeout", "long")]
)
def test_an_option_that_is_not_known_is_refused_by_name(s3_root: str, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name.lower()) as caught:
        open_storage(s3_root, StorageOptions.of({name: value})).read("x")
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    ("root", "name", "value"),
    [
        ("abfss://c@account.dfs.core.windows.net/t", "AZURE_STORAGE_ACCOUNT_KEY", "no base64, t0psecret!"),
        ("gs://bucket/t", "GOOGLE_SERVICE_ACCOUNT_KEY", '{"private_key": "t0psecret"'),
        ("gs://bucket/t", "GOOGLE_SERVICE_ACCOUNT_KEY", '{"private_key": "t0psecret", "client_email": "e"}'),
    ],
)
def test_a_secret_of_the_wrong_form_is_refused_without_being_shown(root: str, name: str, value: str) -> None:
    with pytest.raises(StorageError, match="its options do not make a store") as caught:
        open_storage(root, StorageOptions.of({name: value})).read("x")
    assert "t0psecret" not in f"{caught.value.describe()} {caught.value.fields}"


def test_credentials_are_taken_from_the_environment(
    s3_root: str, s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_options.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    open_storage(s3_root).put("x", b"hello")
    assert open_storage(s3_root.replace("s3:", "s3a:")).read("x") == b"hello"


def test_a_store_that_takes_no_notice_of_conditional_puts_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "data" / "bucket").mkdir(parents=True)
    with rclone(tmp_path / "data") as server:
        storage = open_storage("s3://bucket/index", StorageOptions.of(server.options()))
        with pytest.raises(NoConditionalPutError, match=r"s3://bucket/index.*conditional puts"):
            storage.check_commits()
        assert storage.list() == []


def test_a_store_that_knows_conditional_puts_passes_and_keeps_nothing(storage: Storage) -> None:
    storage.check_commits()
    assert storage.contents() == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b", "a/b"),
        ("s3://bucket/t/a/b", "a/b"),
        ("s3a://bucket/t/a b", "a b"),
    ],
)
def test_a_data_file_is_in_the_bucket_of_its_table(path: str, name: str) -> None:
    assert open_storage("s3://bucket/t/").resolve(path) == name


@pytest.mark.parametrize(
    "path", ["s3://another/t/a", "gs://bucket/t/a", "/etc/passwd", "abfss://bucket@x/t/a", "http://x/y"]
)
def test_a_data_file_in_another_store_is_refused_by_name(path: str) -> None:
    with pytest.raises(StorageError, match="it is in another"):
        open_storage("s3://bucket/t").resolve(path)


@pytest.mark.parametrize("path", ["s3://bucket/t/../x", "s3://bucket/", "a//b", "./a", "a/."])
def test_a_path_that_names_no_object_is_refused(path: str) -> None:
    with pytest.raises(UnsafePathError):
        open_storage("s3://bucket/t").resolve(path)


@pytest.mark.parametrize("root", ["s3://", "s3:///x", "gs://"])
def test_a_place_without_a_bucket_is_refused(root: str) -> None:
    with pytest.raises(StorageError, match="names no bucket"):
        open_storage(root)


@pytest.mark.parametrize(
    ("root", "kind"),
    [("gs://bucket/t", "GCSStore"), ("abfss://c@account.dfs.core.windows.net/t", "AzureStore")],
)
def test_the_other_clouds_are_reached_by_their_own_stores(root: str, kind: str) -> None:
    options = {"AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0", "AWS_REGION": "eu-west-1", "allow_http": "true"}
    storage = open_storage(root, StorageOptions.of(options))
    assert type(storage._store).__name__ == kind  # type: ignore[attr-defined]
    assert storage.resolve(f"{root}/a") == "a"


def test_a_store_is_pickled_with_its_options_and_shows_none(s3_root: str, s3_options: dict[str, str]) -> None:
    storage = open_storage(s3_root, StorageOptions.of(s3_options))
    storage.put("x", b"hello")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == storage
    assert copy.read("x") == b"hello"
    assert SECRET not in f"{copy!r} {copy.options!r}"


def test_within_one_look_a_name_is_asked_for_once(storage: Storage, s3: Proxy) -> None:
    storage.put("x", b"hello")
    mark = len(s3.seen)
    with one_look():
        assert storage.stat("x") == storage.stat("x")
        assert storage.stat("y") is None
        assert storage.stat("y") is None
        assert len(s3.since(mark)) == 2
        storage.put("y", b"now")
        assert storage.stat("y") is not None
    storage.stat("x")
    assert len(s3.since(mark)) == 5


def test_within_one_look_what_a_listed_folder_holds_is_known(storage: Storage, s3: Proxy) -> None:
    storage.put("f/x", b"hello")
    with one_look():
        storage.list("f")
        mark = len(s3.seen)
        assert (storage.stat("f/x") is not None, storage.stat("f/y")) == (True, None)
        assert s3.since(mark) == []
        assert storage.stat("f/deeper/y") is None
        assert storage.stat("y") is None
        assert len(s3.since(mark)) == 2
        storage.put("f/y", b"now")
        assert storage.stat("f/y") is not None


def test_a_file_and_its_stat_are_read_in_one_request(storage: Storage, s3: Proxy) -> None:
    storage.put("x", b"hello")
    mark = len(s3.seen)
    data, stat = storage.read_stated("x")
    assert len(s3.since(mark)) == 1
    assert (data, stat) == (b"hello", storage.stat("x"))


def test_an_end_that_is_to_be_read_comes_with_the_first_request(storage: Storage, s3: Proxy) -> None:
    storage.put("x", bytes(range(256)) * 4096)
    mark = len(s3.seen)
    with storage.open("x", end=1 << 20) as file:
        assert file.read() == bytes(range(256)) * 4096
    assert len(s3.since(mark)) == 1


def test_a_small_file_is_read_in_one_request_and_pages_side_by_side_in_one(
    storage: Storage, s3: Proxy
) -> None:
    storage.put("small", bytes(range(100)))
    storage.put("large", bytes(1 << 20))
    mark = len(s3.seen)
    with storage.open("small") as file:
        assert (file.size(), file.read_at(10, 20), file.read_at(4, 90)) == (
            100,
            bytes(range(20, 30)),
            bytes(range(90, 94)),
        )
    assert len(s3.since(mark)) == 1
    with storage.open("large") as file:
        assert file.read_at(8, (1 << 20) - 8) == bytes(8)
        for place in range(0, 200_000, 1000):
            assert file.read_at(1000, place) == bytes(1000)
    assert len(s3.since(mark)) == 3


def test_a_large_file_is_written_in_parts_and_is_whole(storage: Storage) -> None:
    block = bytes(range(256)) * 4096
    with storage.create("a", "stem") as unfinished:
        for _ in range(20):
            unfinished.sink.write(block)
        unfinished.written().close()
        unfinished.publish("b")
    assert storage.read("a/b") == block * 20


def test_a_local_table_is_opened_without_the_library_of_object_stores(tmp_path: Path) -> None:
    code = (
        "import sys; from tailbit.tables.storage import open_storage;"
        f"open_storage({str(tmp_path)!r}).list(); assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_no_options_are_shown_as_none() -> None:
    assert repr(NO_OPTIONS) == "StorageOptions()"
    assert "s3cr3t" not in repr(StorageOptions.of({"AWS_SECRET_ACCESS_KEY": "s3cr3t"}))


@pytest.mark.parametrize(
    ("status", "code", "kind", "reason", "hint"),
    [
        (403, "RequestTimeTooSkewed", StorageError, "the clock of this machine", "Set the clock"),
        (400, "ExpiredToken", UnusableStorageError, "the credentials have expired", "Give credentials"),
        (403, "InvalidObjectState", UnusableStorageError, "the object is in an archive", "Restore it"),
        (403, "AccessDenied", UnusableStorageError, "the store denies access", "Give credentials"),
    ],
)
def test_what_looks_like_wrong_credentials_is_told_by_its_cause(
    status: int, code: str, kind: type[StorageError], reason: str, hint: str
) -> None:
    answer = f"<Error><Code>{code}</Code></Error>"
    told = refusal("s3://b/x", OSError(f"GET failed: status code: {status}, body: {answer}"), NO_OPTIONS)
    assert type(told) is kind
    assert told.fields["reason"].startswith(reason)
    assert code in str(told)
    assert told.hint.startswith(hint)


DATA = random.Random(1).randbytes(12 << 20)


class Asked:
    """An object whose requests are counted."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.spans = list[tuple[int, int]]()
        self.file = Ranges(len(data), data[-TAIL:], self._fetch)

    def _fetch(self, start: int, end: int) -> bytes:
        self.spans.append((start, end))
        return self.data[start:end]

    @property
    def brought(self) -> int:
        """Bytes of all answers."""
        return sum(end - start for start, end in self.spans)


@pytest.mark.parametrize("piece", [1 << 10, 100_000, 300_000, 5 << 20])
def test_what_is_read_in_order_comes_in_ever_larger_answers_and_once(piece: int) -> None:
    asked = Asked(DATA)
    found = [asked.file.read(piece) for _ in range(0, len(DATA), piece)]
    assert b"".join(found) == DATA
    assert len(asked.spans) <= 7
    assert asked.brought <= len(DATA)
    assert max(end - start for start, end in asked.spans) <= max(piece, FAR_AHEAD)


def test_what_is_read_here_and_there_brings_little_more() -> None:
    asked, rng = Asked(DATA), random.Random(2)
    for _ in range(20):
        at, size = rng.randrange(len(DATA)), rng.randrange(2 * AHEAD)
        asked.file.seek(at)
        assert asked.file.read(size) == DATA[at : at + size]
    assert max(end - start for start, end in asked.spans) <= 3 * AHEAD


def test_a_parquet_file_of_many_row_groups_is_read_whole_in_few_requests() -> None:
    out, numbers = pa.BufferOutputStream(), np.random.default_rng(3)
    table = pa.table({f"c{n}": numbers.integers(0, 1 << 40, 100_000) for n in range(20)})
    pq.write_table(table, out, row_group_size=10_000)
    asked = Asked(out.getvalue().to_pybytes())
    assert ParquetFile(pa.PythonFile(asked.file, mode="r")).read() == table
    assert len(asked.spans) <= 8
    assert asked.brought <= len(asked.data)
