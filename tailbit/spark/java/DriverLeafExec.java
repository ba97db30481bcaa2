package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LeafExecNode;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** A leaf of a plan whose rows the driver gives; two of one class are equal where their logical plans are. */
abstract class DriverLeafExec extends SparkPlan implements LeafExecNode {
  private final transient LogicalPlan plan;
  private final Seq<Attribute> output;

  DriverLeafExec(LogicalPlan plan) {
    this.plan = plan;
    output = plan.output();
  }

  /** Stands, where the operators above are sent to executors, for what gives the same columns. */
  protected final Object writeReplace() {
    return new LocalTableScanExec(output, IndexedAnswer.seq(List.of()), Option.empty());
  }

  /** Counts rows that no task has given, as operators do. */
  final void count(SQLMetric metric, int number) {
    metric.add(number);
    String query = sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    SQLMetrics.postDriverMetricUpdates(sparkContext(), query, IndexedAnswer.seq(List.of(metric)));
  }

  @Override
  public final Seq<Attribute> output() {
    return output;
  }

  @Override
  public final Seq<SparkPlan> children() {
    return IndexedAnswer.seq(List.of());
  }

  @Override
  public final SparkPlan mapChildren(Function1<SparkPlan, SparkPlan> change) {
    return this;
  }

  @Override
  public final SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public final int productArity() {
    return 1;
  }

  @Override
  public final Object productElement(int place) {
    return plan;
  }

  @Override
  public final boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }

  @Override
  public final boolean equals(Object other) {
    return canEqual(other) && plan.equals(((DriverLeafExec) other).plan);
  }

  @Override
  public final int hashCode() {
    return plan.hashCode();
  }
}
