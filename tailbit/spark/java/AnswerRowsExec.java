package io.tailbit.spark;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.collection.immutable.Map;
import scala.reflect.ClassTag$;

/** All rows of what the index answers, which the driver sends with the tasks: each has few enough that Spark does not warn. */
final class AnswerRowsExec extends DriverLeafExec {
  private static final long MOST_BYTES_OF_TASK = 3 << 18;

  private final transient IndexedAnswer answer;
  private transient Map<String, SQLMetric> metrics;

  AnswerRowsExec(LogicalRelation relation, IndexedAnswer answer) {
    super(relation);
    this.answer = answer;
  }

  /** Returns the metrics, which are made where the plan runs: it may be compared where no session is. */
  @Override
  public synchronized Map<String, SQLMetric> metrics() {
    if (metrics == null) {
      metrics = new Map.Map1<>("numOutputRows", SQLMetrics.createMetric(sparkContext(), "number of output rows"));
    }
    return metrics;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    int most = Math.max(1, answer.rows.size());
    long bytes = answer.rows.stream().mapToLong(row -> row instanceof UnsafeRow packed ? packed.getSizeInBytes() : 0).sum();
    long tasks = Math.max(sparkContext().defaultParallelism(), bytes / MOST_BYTES_OF_TASK + 1);
    count(longMetric("numOutputRows"), answer.rows.size());
    return sparkContext()
        .parallelize(IndexedAnswer.seq(answer.rows), (int) Math.min(most, tasks), ClassTag$.MODULE$.apply(InternalRow.class));
  }
}
