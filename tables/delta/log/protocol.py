"""The protocol gate: what a table demands of its readers, accepted or refused by name.

Unknown actions and unknown writer features are none of our business; an unknown reader feature always is. A
protocol that contradicts itself is refused too, as Spark and delta-kernel refuse it.
Checked at every commit that is read, since features can be dropped: protocols are not monotonic.
Source: Delta protocol, Table Features and Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailbit.errors import MalformedLogError, UnsupportedFeatureError

MAX_READER_VERSION = 3
"""The version from which readers go by named features."""
MAX_WRITER_VERSION = 7
"""The version from which writers go by named features."""

READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "geospatial",
        "geospatial-preview",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that change nothing for us or that are read exactly. Columns of types that we cannot
decode are refused where they are asked for, not with the table."""

READ_ELSEWHERE = {
    "catalogManaged": "Its newest commits are known to its catalog only: read it through the catalog.",
    "catalogOwned-preview": "Its newest commits are known to its catalog only: read it through the catalog.",
    "redirectReaderWriter-preview": "The table has moved: give the path that the redirect names.",
    "redirectWriterOnly-preview": "The table has moved: give the path that the redirect names.",
    "coordinatedCommits-preview": "Its newest commits are known to its coordinator only: drop that feature.",
}
"""Reader features of tables that only somebody else can read, and who."""

_REFUSED_SETTINGS = {
    "delta.coordinatedCommits.commitCoordinator-preview": "coordinatedCommits-preview",
    "delta.redirectReaderWriter-preview": "redirectReaderWriter-preview",
    "delta.redirectWriterOnly-preview": "redirectWriterOnly-preview",
}
"""Table properties of writer-only features that still mean: the log here is not the whole truth."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a table demands: versions, and features by name where the versions are 3 and 7."""

    reader_version: int
    writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, action: Mapping[str, Any], file: str) -> Protocol:
        """The protocol of a log action.

        Raises:
            MalformedLogError: versions that are no numbers, features that are no list of names, or features
            where the versions have none, or the other way round.
        """
        reader, writer = (_number(action.get(key), file) for key in ("minReaderVersion", "minWriterVersion"))
        features = action.get("readerFeatures"), action.get("writerFeatures")
        wrong = _contradiction(reader, writer, *(listed is not None for listed in features))
        if wrong is not None:
            raise MalformedLogError(file=file, reason=f"the protocol contradicts itself: {wrong}")
        readers, writers = (_names([] if listed is None else listed, file) for listed in features)
        return cls(reader, writer, readers, writers)


def _contradiction(reader: int, writer: int, reader_features: bool, writer_features: bool) -> str | None:
    """Return what versions and lists of features say against each other; None for versions not known here."""
    if reader > MAX_READER_VERSION or writer > MAX_WRITER_VERSION:
        return None
    if min(reader, writer) < 1:
        return f"version {min(reader, writer)} is below 1"
    if reader == MAX_READER_VERSION and writer < MAX_WRITER_VERSION:
        return f"reader version {reader} needs writer version {MAX_WRITER_VERSION}, it has {writer}"
    listed = (
        ("reader", reader, MAX_READER_VERSION, reader_features),
        ("writer", writer, MAX_WRITER_VERSION, writer_features),
    )
    for who, version, last, has_list in listed:
        if has_list != (version == last):
            return f"{who} version {version} {'with' if has_list else 'without'} a list of {who} features"
    return None


def _number(found: Any, file: str) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise MalformedLogError(file=file, reason=f"protocol version {found!r} is not a number")
    return found


def _names(found: Any, file: str) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(n, str) for n in found):
        raise MalformedLogError(file=file, reason="protocol features are not a list of names")
    return frozenset(found)


def check_protocol(protocol: Protocol, path: str, version: int) -> None:
    """Pass a protocol whose every reader feature is understood.

    Raises:
        UnsupportedFeatureError: names the first feature, or the version, that is not.
    """
    if protocol.writer_version > MAX_WRITER_VERSION:
        _refuse(f"writer version {protocol.writer_version}", path, version)
    if protocol.reader_version > MAX_READER_VERSION:
        _refuse(f"reader version {protocol.reader_version}", path, version)
    for feature in sorted(protocol.reader_features - READABLE):
        _refuse(feature, path, version)


def check_configuration(configuration: Mapping[str, str | None], path: str, version: int) -> None:
    """Pass table properties that leave this log the whole truth.

    Raises:
        UnsupportedFeatureError: commits are coordinated elsewhere, or the table has moved.
    """
    for key, feature in _REFUSED_SETTINGS.items():
        if configuration.get(key):
            _refuse(feature, path, version)


def _refuse(feature: str, path: str, version: int) -> None:
    fields = {"path": path, "version": version, "feature": feature}
    if feature in READ_ELSEWHERE:
        raise UnsupportedFeatureError(**fields, hint=READ_ELSEWHERE[feature])
    raise UnsupportedFeatureError(**fields)
