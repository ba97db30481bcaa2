"""An answer as a Spark DataFrame, read by Spark's own reader of Delta: in the JVM, in columns, in parallel.

Three ways were measured beside Spark's own filtered read. Where the index leaves at most half of the bytes,
Delta's file index over the files that are left, and the same filter, is the quickest. Where it leaves more,
the plain filtered read is the quickest, since a list of files costs too. A Delta table made for the answer
loses to both: Spark spends most of a second on any log that it has not seen. So nothing is written, and
nothing is left to be cleaned up; executors read the table's own files.

Spark's filter selects the answer's rows only in a session with the same time zone and SQL rules, and only if
the predicate does not use the present moment, which Spark takes anew for each query. In any other case the
rows are computed here, and deletion vectors in the list of files hide all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tailbit.arguments.values import wrong_type
from tailbit.errors import DataFileError, UsageError
from tailbit.index.expression.present import may_ask_for_present
from tailbit.index.query.candidates import candidates
from tailbit.index.query.selection import Selection
from tailbit.outputs.delta_view import shown_files
from tailbit.outputs.spark_filter import filtered
from tailbit.outputs.spark_settings import SAME_SQL, otherwise_set
from tailbit.tables import compute as pc
from tailbit.tables.delta.snapshot import DeltaSnapshot
from tailbit.tables.delta.view import inline_add, plain_add

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES = 0.5
"""Largest share of the table's bytes for which the files are listed one by one."""


def data_frame(selection: Selection, predicate: str | None, zone: str, spark: SparkSession) -> DataFrame:
    """Return the rows of a selection in a session; `predicate` is its text, `zone` its session time zone.

    Raises:
        UsageError: the source is no Delta table, or `spark` is no session with a JVM beside this process.
        DataFileError: a data file that may match is gone.
    """
    if not hasattr(spark, "_jsparkSession"):
        wanted = 'a SparkSession that has a JVM; in Spark Connect, read format("tailbit") instead'
        raise wrong_type("spark", spark, wanted)
    snapshot = selection.snapshot
    if not isinstance(snapshot, DeltaSnapshot) or selection.storage.uri is None:
        raise UsageError(
            reason=f"Spark has no reader for the files of {snapshot.root}",
            hint='Read it with spark.read.format("tailbit").',
        )
    asks_now = predicate is not None and may_ask_for_present(predicate)
    if asks_now or not _means_the_same(selection, zone, spark):
        adds = [inline_add(file, selection.schema, selection.storage) for file in shown_files(selection)]
        return _of_files(snapshot, adds, spark)
    files = candidates(selection)
    lost = _lost(selection, [file.path for file in files])
    if lost is not None:
        raise DataFileError(file=lost, reason="the file is missing")
    most = sum(file.size for file in files) > MOST_BYTES * _bytes(snapshot)
    # A read by version may touch files that cannot match: if one of these is gone, candidates are listed.
    if most and _lost(selection, snapshot.files.core["path"].to_pylist()) is None:
        reader = spark.read.format("delta").option("versionAsOf", snapshot.version)
        frame = reader.load(snapshot.root)
    else:
        frame = _of_files(snapshot, [plain_add(file, selection.storage) for file in files], spark)
    return frame if predicate is None else filtered(frame, selection.node, predicate)


def _lost(selection: Selection, paths: Iterable[str]) -> str | None:
    """Return the first missing file of some data files; None if all exist."""
    storage = selection.storage
    return next((path for path in paths if storage.stat(storage.resolve(path)) is None), None)


def _bytes(snapshot: DeltaSnapshot) -> int:
    total: int | None = pc.sum(snapshot.files.core["size"]).as_py()
    return total or 0


def _means_the_same(selection: Selection, zone: str, spark: SparkSession) -> bool:
    here = spark.conf.get("spark.sql.session.timeZone")
    zones = {zone, *(c.zone for c in selection.schema.columns if c.partition and c.type.name == "timestamp")}
    return zones == {here} and otherwise_set(spark, SAME_SQL) is None


def _of_files(snapshot: DeltaSnapshot, adds: list[dict[str, Any]], spark: SparkSession) -> DataFrame:
    """Return a DataFrame over files of a version, through Delta's own file index.

    All add actions are passed to the JVM in one call.
    """
    from pyspark.sql import DataFrame

    jvm = spark._jvm
    assert jvm is not None
    nothing = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, snapshot.root)
    at_version = log.getSnapshotAt(snapshot.version, nothing, nothing, False)
    hides = any(add["deletionVector"] is not None for add in adds)
    tracked = snapshot.configuration.get("delta.enableRowTracking", "").lower() == "true"
    if tracked or (hides and "deletionVectors" not in snapshot.protocol.reader_features):
        at_version = _shown_alone(jvm, log, at_version)
    files = _parsed(jvm, adds, "[Lorg.apache.spark.sql.delta.actions.AddFile;")
    listed = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(files)
    return DataFrame(log.createDataFrame(at_version, listed, False, nothing), spark)


def _shown_alone(jvm: Any, log: Any, at_version: Any) -> Any:
    """Return the snapshot through which Delta reads a list of files with their deletion vectors.

    Delta looks at deletion vectors only where the table's protocol has them, and demands row ids of each file
    where the table tracks rows.
    """
    delta = jvm.org.apache.spark.sql.delta
    vectors = getattr(getattr(delta, "DeletionVectorsTableFeature$"), "MODULE$")
    features = at_version.protocol().implicitlyAndExplicitlySupportedFeatures()
    protocol = delta.actions.Protocol.forTableFeature(vectors).withFeatures(features)
    metadata = json.loads(at_version.metadata().json())["metaData"]
    metadata["configuration"].pop("delta.enableRowTracking", None)
    described = _parsed(jvm, metadata, "org.apache.spark.sql.delta.actions.Metadata")
    option, nothing = jvm.scala.Option, jvm.scala.Option.empty()
    return delta.DummySnapshot(log.logPath(), log, described, nothing, option.apply(protocol))


def _parsed(jvm: Any, value: Any, name: str) -> Any:
    """Parse a value into an object of a Delta class, in one call."""
    mapper = getattr(getattr(jvm.org.apache.spark.sql.delta.util, "JsonUtils$"), "MODULE$").mapper()
    return mapper.readValue(
        json.dumps(value), jvm.org.apache.spark.util.Utils.classForName(name, True, False)
    )
