package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.SnapshotDescriptor;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A scan of a Delta table at one version, what is filtered and what is shown of it.
 *
 * `planned`: the files that Delta lists at the version; none where Delta has not listed them yet.
 */
record Scan(
    LogicalRelation relation,
    SnapshotDescriptor at,
    PreparedDeltaFileIndex planned,
    List<NamedExpression> shown,
    List<Expression> filters) {
  /** Returns the scan that a plan filters and projects, at the version that Delta has pinned, or null. */
  static Scan below(LogicalPlan plan) {
    var operation = PhysicalOperation.unapply(plan);
    if (operation.isDefined()
        && operation.get()._3() instanceof LogicalRelation relation
        && location(relation) instanceof PreparedDeltaFileIndex planned) {
      return new Scan(relation, planned, planned, list(operation.get()._1()), list(operation.get()._2()));
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
      return new Scan(relation, log, null, list(operation.get()._1()), list(operation.get()._2()));
    }
    return null;
  }

  /** Returns the scan at the version that Delta would pin now. */
  Scan pinned() {
    return new Scan(relation, ((TahoeLogFileIndex) location(relation)).getSnapshot(), null, shown, filters);
  }

  /** Returns the files of the scan at its version, which are listed when somebody asks for them. */
  TahoeFileIndex files() {
    if (planned != null) {
      return planned;
    }
    TahoeLogFileIndex log = (TahoeLogFileIndex) location(relation);
    SnapshotDescriptor pinned = at == log ? log.snapshotAtAnalysis() : at;
    return log.copy(
        log.spark(), log.deltaLog(), log.path(), pinned, log.catalogTableOpt(), log.partitionFilters(), true);
  }

  /** Tells whether another scan is of the same table at the same version. */
  boolean isOfVersionOf(Scan other) {
    return at.version() == other.at.version() && at.metadata().id().equals(other.at.metadata().id());
  }

  /** Returns where the files of a relation come from, or null. */
  static FileIndex location(LogicalRelation relation) {
    return !relation.isStreaming() && relation.relation() instanceof HadoopFsRelation files ? files.location() : null;
  }

  private static <T> List<T> list(scala.collection.immutable.Seq<T> items) {
    return CollectionConverters.asJava(items);
  }
}
