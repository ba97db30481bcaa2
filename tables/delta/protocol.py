"""The protocol gate: the reader features that a table demands are accepted, or refused by name.

Unknown actions and unknown writer features do not concern readers; an unknown reader feature is always
refused. A protocol that contradicts itself is refused too, as by Spark and delta-kernel. The gate checks
every commit that is read, since features can be dropped: protocols are not monotonic. Source: Delta protocol,
Table Features and Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError

MAX_READER_VERSION = 3
"""The version from which readers go by named features."""
MAX_WRITER_VERSION = 7
"""The version from which writers go by named features."""
FIRST_GENERATING = 4
"""The writer version from which writers without named features keep generated columns."""

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
"""Reader features that need no support here or are read exactly. Columns of types that cannot be decoded are
refused when a question names them; the table is not refused for them."""

READ_ELSEWHERE = {
    "catalogManaged": "Its newest commits are known to its catalog only: read it through the catalog.",
    "catalogOwned-preview": "Its newest commits are known to its catalog only: read it through the catalog.",
    "redirectReaderWriter-preview": "The table has moved: give the path that the redirect names.",
    "redirectWriterOnly-preview": "The table has moved: give the path that the redirect names.",
    "coordinatedCommits-preview": "Its newest commits are known to its coordinator only: drop that feature.",
}
"""Reader features of tables that only another system can read, with the advice to the user."""

_DROP = "Drop the feature (ALTER TABLE ... DROP FEATURE {feature}) or use a tailbit release that lists it."

_REFUSED_SETTINGS = {
    "delta.coordinatedCommits.commitCoordinator-preview": "coordinatedCommits-preview",
    "delta.redirectReaderWriter-preview": "redirectReaderWriter-preview",
    "delta.redirectWriterOnly-preview": "redirectWriterOnly-preview",
}
"""Table properties of writer-only features with which this log alone does not hold the table's state."""


class Protocol(NamedTuple):
    """A protocol action: versions, and named features if the versions are 3 and 7."""

    reader_version: int
    writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, action: Mapping[str, Any], file: str) -> Protocol:
        """Parse a protocol action.

        Raises:
            MalformedLogError: a version is not a number, features are not a list of names, or the
                versions require or forbid a list of features.
        """
        reader, writer = (_number(action.get(key), file) for key in ("minReaderVersion", "minWriterVersion"))
        features = action.get("readerFeatures"), action.get("writerFeatures")
        wrong = _contradiction(reader, writer, *(listed is not None for listed in features))
        if wrong is not None:
            raise MalformedLogError(file=file, reason=f"the protocol contradicts itself: {wrong}")
        readers, writers = (_names([] if listed is None else listed, file) for listed in features)
        return cls(reader, writer, readers, writers)

    @property
    def generates_columns(self) -> bool:
        """Return whether writers must store in generated columns what their expressions say.

        Source: Delta protocol, Generated Columns.
        """
        if self.writer_version == MAX_WRITER_VERSION:
            return "generatedColumns" in self.writer_features
        return self.writer_version >= FIRST_GENERATING


def _contradiction(reader: int, writer: int, reader_features: bool, writer_features: bool) -> str | None:
    """Describe how versions and feature lists contradict each other; None if they agree or are too new."""
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


def _number(value: Any, file: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedLogError(file=file, reason=f"protocol version {value!r} is not a number")
    return value


def _names(names: Any, file: str) -> frozenset[str]:
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise MalformedLogError(file=file, reason="protocol features are not a list of names")
    return frozenset(names)


def check_protocol(protocol: Protocol, path: str, version: int) -> None:
    """Check that every reader feature of a protocol is supported."""
    if protocol.writer_version > MAX_WRITER_VERSION:
        _refuse(f"writer version {protocol.writer_version}", path, version)
    if protocol.reader_version > MAX_READER_VERSION:
        _refuse(f"reader version {protocol.reader_version}", path, version)
    for feature in sorted(protocol.reader_features - READABLE):
        _refuse(feature, path, version)


def check_configuration(configuration: Mapping[str, str | None], path: str, version: int) -> None:
    """Check that the table properties do not keep a part of the table's state outside of this log."""
    for key, feature in _REFUSED_SETTINGS.items():
        if configuration.get(key):
            _refuse(feature, path, version)


def _refuse(feature: str, path: str, version: int) -> None:
    fields = {"path": path, "version": version, "feature": feature}
    raise UnsupportedFeatureError(**fields, hint=READ_ELSEWHERE.get(feature) or _DROP.format(feature=feature))
