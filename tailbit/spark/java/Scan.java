package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.SnapshotDescriptor;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A scan of a Delta table at one version, what is filtered and what is shown of it.
 *
 * `planned`: the files that Delta lists at the version; none where Delta has not listed them yet. `pin`: the version
 * that Delta would then pin. `implied`: conditions that no filter of the plan is, but that rows satisfy which it needs. `first`: the rows
 * that it needs, where these are the first by a column.
 */
record Scan(
    LogicalRelation relation,
    SnapshotDescriptor at,
    PreparedDeltaFileIndex planned,
    Pin pin,
    List<NamedExpression> shown,
    List<Expression> filters,
    List<JoinKeys.Implied> implied,
    FirstRows first) {
  /** Returns the scan that a plan filters and projects, at the version that Delta has pinned, or null. */
  static Scan below(LogicalPlan plan) {
    var operation = PhysicalOperation.unapply(plan);
    if (operation.isDefined()
        && operation.get()._3() instanceof LogicalRelation relation
        && location(relation) instanceof PreparedDeltaFileIndex planned) {
      return new Scan(relation, planned, planned, null, list(operation.get()._1()), filters(operation.get()._2()), List.of(), null);
    }
    return null;
  }

  /** Returns the scan of a plan for which Delta has not pinned a version, at the one of its analysis, or null. */
  static Scan notPlanned(LogicalPlan plan) {
    var operation = PhysicalOperation.unapply(plan);
    if (operation.isDefined()
        && operation.get()._3() instanceof LogicalRelation relation
        && location(relation) instanceof TahoeLogFileIndex log
        && log.partitionFilters().isEmpty()) {
      return new Scan(relation, log, null, new Pin(log), list(operation.get()._1()), filters(operation.get()._2()), List.of(), null);
    }
    return null;
  }

  /** Returns the scan of the rows that a plan needs, of which its relation is the last of a path. */
  Scan above(List<LogicalPlan> path) {
    return new Scan(relation, at, planned, pin, shown, filters, JoinKeys.of(path), FirstRows.of(path));
  }

  /** Returns how many files Delta has listed for the scan, or has in the table as far as it is known; else 0. */
  long numberOfFiles() {
    return planned == null ? number(at.numOfFilesIfKnown()) : planned.preparedScan().files().size();
  }

  /** Returns the bytes of these files. */
  long bytes() {
    return planned == null ? number(at.sizeInBytesIfKnown()) : planned.sizeInBytes();
  }

  private static long number(Option<Object> known) {
    return known.isEmpty() ? 0 : ((Number) known.get()).longValue();
  }

  /** Returns the scan at the version that Delta would pin. */
  Scan pinned() {
    return new Scan(relation, pin.snapshot(), null, pin, shown, filters, implied, first);
  }

  /** Returns the files of the scan at the pinned version, which are listed when somebody asks for them. */
  TahoeFileIndex files() {
    if (planned != null) {
      return planned;
    }
    TahoeLogFileIndex log = pin.log;
    return log.copy(
        log.spark(), log.deltaLog(), log.path(), pin.snapshot(), log.catalogTableOpt(), log.partitionFilters(), true);
  }

  /** Tells whether another scan is of the same table at the same version. */
  boolean isOfVersionOf(Scan other) {
    return at.version() == other.at.version() && at.metadata().id().equals(other.at.metadata().id());
  }

  /** Returns where the files of a relation come from, or null. */
  static FileIndex location(LogicalRelation relation) {
    return !relation.isStreaming() && relation.relation() instanceof HadoopFsRelation files ? files.location() : null;
  }

  /** The version that Delta would pin, for which it lists its log: once, when it is first asked for. */
  static final class Pin {
    private final TahoeLogFileIndex log;
    private Snapshot snapshot;

    private Pin(TahoeLogFileIndex log) {
      this.log = log;
    }

    private Snapshot snapshot() {
      snapshot = snapshot == null ? log.getSnapshot() : snapshot;
      return snapshot;
    }
  }

  /** Returns the filters of a scan but those by which Spark prunes partitions when it runs: a join says as much. */
  private static List<Expression> filters(scala.collection.immutable.Seq<Expression> all) {
    return list(all).stream().filter(filter -> !(filter instanceof DynamicPruning)).toList();
  }

  private static <T> List<T> list(scala.collection.immutable.Seq<T> items) {
    return CollectionConverters.asJava(items);
  }
}
