package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** What both rules put in the place of a scan: an aggregate's rows, or those that the filters leave. */
final class Served {
  private Served() {}

  /** Returns a plan that scans nothing. */
  static LogicalPlan whole(LogicalPlan plan, Scan scan, Question question) throws Declined {
    if (!(plan instanceof Aggregate aggregate)) {
      return Rows.served(scan, question);
    }
    LogicalPlan counted = Counts.served(aggregate, question);
    if (counted != null) {
      return counted;
    }
    LogicalPlan rows = Rows.served(scan, question);
    return aggregate.withNewChildren(CollectionConverters.asScala(List.of(rows)).toList());
  }
}
