"""The properties of a Hudi table are read as Java writes them; what cannot be read is refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.hudi_timeline import HudiTimeline
from tailbit.errors import (
    MalformedLogError,
    NotATableError,
    TableInTransitionError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from tailbit.tables.hudi.properties import TableProperties, parse_properties, read_properties
from tailbit.tables.storage import open_storage


def properties_of(folder: Path, version: int = 9, **more: str) -> TableProperties:
    HudiTimeline(folder, version, random.Random(1)).properties(**more)
    return read_properties(open_storage(str(folder)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"a=b\nc = d\n", {"a": "b", "c": "d"}),
        (b"a\\:b\\=c=d\\:e", {"a:b=c": "d:e"}),
        (b"# no=1\n! no=2\n\n  a b\n", {"a": "b"}),
        (b"a=one \\\n   two\r\nb=\\\\\nc=3", {"a": "one two", "b": "\\", "c": "3"}),
        (b"name=\\u00e4\\t\\z\xe4", {"name": "ä\tzä"}),
        (b"a=1\na=2\nb\nc:", {"a": "2", "b": "", "c": ""}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: bytes, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@pytest.mark.parametrize(
    ("version", "active", "history"),
    [
        (6, ".hoodie", ".hoodie/archived"),
        (8, ".hoodie/timeline", ".hoodie/timeline/history"),
        (9, ".hoodie/timeline", ".hoodie/timeline/history"),
    ],
)
def test_the_version_decides_where_the_timeline_lies(
    version: int, active: str, history: str, tmp_path: Path
) -> None:
    read = properties_of(tmp_path, version)
    assert (read.version, read.active, read.history) == (version, active, history)


@pytest.mark.supports_hudi("Tables", "table versions 7, before 6 and after 9", "refused")
@pytest.mark.parametrize(
    ("version", "hint"), [(5, "Upgrade the table"), (7, "Upgrade the table"), (10, "Use a tailbit release")]
)
def test_another_table_version_is_refused_by_name(version: int, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"hudi table version {version}") as refused:
        properties_of(tmp_path, version)
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    "more",
    [{"hoodie.table.version": "nine"}, {"hoodie.timeline.layout.version": "1"}],
    ids=["text", "layout"],
)
def test_a_version_that_says_nothing_is_malformed(more: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(MalformedLogError):
        properties_of(tmp_path, 9, **more)


@pytest.mark.parametrize("folder", ["..", "../../x", "/etc", "a//b", "./a"])
def test_a_timeline_outside_of_the_table_is_refused(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafePathError):
        properties_of(tmp_path, 9, **{"hoodie.timeline.path": folder})


def test_a_folder_without_properties_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="Hudi table"):
        read_properties(open_storage(str(tmp_path)))


@pytest.mark.parametrize("begun", [None, b"", b"#Properties saved\nhoodie.table.name=t\n"])
def test_properties_that_are_being_written_are_a_table_in_transition(
    begun: bytes | None, tmp_path: Path
) -> None:
    properties_of(tmp_path)
    file = tmp_path / ".hoodie" / "hoodie.properties"
    file.rename(file.with_name("hoodie.properties.backup"))
    if begun is not None:
        file.write_bytes(begun)
    with pytest.raises(TableInTransitionError) as raised:
        read_properties(open_storage(str(tmp_path)))
    assert raised.value.retryable
