package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;

/** A scan of a Delta table at the version that Delta has pinned, and the filters over it. */
record Scan(LogicalRelation relation, PreparedDeltaFileIndex planned, List<Expression> filters) {
  /** Returns the scan that a plan filters and projects, or null. */
  static Scan below(LogicalPlan plan) {
    var operation = PhysicalOperation.unapply(plan);
    if (operation.isDefined()
        && operation.get()._3() instanceof LogicalRelation relation
        && !relation.isStreaming()
        && relation.relation() instanceof HadoopFsRelation files
        && files.location() instanceof PreparedDeltaFileIndex planned) {
      return new Scan(relation, planned, CollectionConverters.asJava(operation.get()._2()));
    }
    return null;
  }
}
