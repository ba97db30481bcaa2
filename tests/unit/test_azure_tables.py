"""Source and index in a real Azure Blob server: answers as on disk, races, lost replies, refusals."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
from support.azurite import ACCOUNT, CONTAINER, KEY, Azurite, azurite, serving
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.faulty_proxy import Fault, Proxy, proxy_to
from support.forked import command
from support.stored import FILES, checked, on_disk, put_into
from support.stored_commits import check_committed_once, check_one_wins
from tailbit.errors import StorageError
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.storage import StorageOptions, open_storage

pytestmark = pytest.mark.skipif(azurite() is None, reason="no Azurite: make test installs it where npm is")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with serving(tmp_path_factory.mktemp("azure")) as found:
        yield found


@pytest.fixture
def proxy(server: Azurite) -> Iterator[Proxy]:
    with proxy_to(server.port) as found:
        yield found


@pytest.fixture
def options(server: Azurite, proxy: Proxy) -> dict[str, str]:
    return {**server.options(proxy.port), "max_retries": "4"}


@pytest.fixture(params=[f"az://{CONTAINER}", f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"])
def root(request: pytest.FixtureRequest) -> str:
    """A place in the store where nothing is yet, as either kind of URL."""
    return f"{request.param}/{uuid.uuid4().hex}"


@pytest.fixture
def written(tmp_path: Path) -> DeltaBuilder:
    return on_disk(tmp_path / "written")


def test_a_table_and_its_index_in_azure_answer_as_on_disk(
    root: str, options: dict[str, str], written: DeltaBuilder
) -> None:
    given = StorageOptions.of(options)
    put_into(root, given, written.path)
    assert checked(root, written.path, options).state == "absent"
    one_by_one = StreamSettings(files=1, poll_ms=0)
    assert len(Drive(root, f"{root}/_tailbit", ["k", "v"], one_by_one, options=given).drain()) >= FILES
    opened = checked(root, written.path, options)
    assert (opened.state, opened.where("v = 'v1'").files_scanned) == ("complete", 0)
    assert opened.verify().sound
    assert opened.compact() > 0
    opened.alter(drop=["k"])
    assert checked(root, written.path, options).verify().sound
    assert KEY not in f"{opened!r} {opened.where('k = 1').explain()}"


def test_delta_rs_writes_the_source_and_reads_the_index_in_azure(root: str, options: dict[str, str]) -> None:
    given = {name: value for name, value in options.items() if name.startswith("AZURE_")}
    for first in (0, 10):
        rows = pa.table({"k": list(range(first, first + 10))})
        write_deltalake(root, rows, mode="append", storage_options=given)
    drive = Drive(root, f"{root}/_tailbit", ["k"], options=StorageOptions.of(options))
    drive.drain()
    answer = tailbit.open(root, storage_options=options).where("k >= 5")
    assert (answer.count(), answer.files_scanned) == (15, 0)
    assert DeltaTable(f"{root}/_tailbit", storage_options=given).version() == drive.index.version


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.BUSY_AFTER, Fault.BUSY, Fault.RESET])
def test_a_commit_to_azure_whose_reply_is_lost_is_committed_once(
    proxy: Proxy, root: str, options: dict[str, str], fault: Fault
) -> None:
    check_committed_once(proxy, root, StorageOptions.of(options), fault)


def test_of_two_writers_of_one_version_in_azure_exactly_one_wins(root: str, options: dict[str, str]) -> None:
    check_one_wins(root, StorageOptions.of(options), 5)


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"])
def test_what_azure_denies_is_refused_by_name_without_a_secret(
    root: str, options: dict[str, str], name: str
) -> None:
    wrong = open_storage(root, StorageOptions.of(options | {name: "d3JvbmcxMjM="}))
    for act in (lambda: wrong.read("x"), wrong.list, lambda: wrong.put("x", b""), lambda: wrong.stat("x")):
        with pytest.raises(StorageError) as caught:
            act()
        assert "credentials" in f"{caught.value} {caught.value.hint}"
        assert not [secret for secret in (KEY, "d3JvbmcxMjM") if secret in str(caught.value)]


def test_a_missing_container_is_refused_by_name(options: dict[str, str]) -> None:
    nowhere = open_storage("az://no-such-container/t", StorageOptions.of(options))
    for act in (lambda: nowhere.put("x", b""), lambda: nowhere.put_if_absent("x", b""), nowhere.list):
        with pytest.raises(StorageError, match="there is no such bucket"):
            act()


def test_the_commands_ask_a_table_in_azure_with_credentials_of_the_environment(
    root: str, options: dict[str, str], written: DeltaBuilder
) -> None:
    given = StorageOptions.of(options)
    put_into(root, given, written.path)
    Drive(root, f"{root}/_tailbit", ["k", "v"], options=given).drain()
    retries = options.pop("max_retries")
    for arguments, told in (
        (["count", root, "v = 'v1'"], str(tailbit.open(written.path).where("v = 'v1'").count())),
        (["verify", root], "sound"),
        (["status", root], "complete"),
    ):
        patience = ["--storage-option", f"max_retries={retries}"]
        done = command(*arguments, *patience, env=os.environ | options)
        assert done.returncode == 0, done.stderr
        assert told in done.stdout
        assert KEY not in done.stdout + done.stderr
