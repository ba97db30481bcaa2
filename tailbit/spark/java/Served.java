package io.tailbit.spark;

import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What both rules put in the place of a scan: an aggregate's rows, or those that the filters leave. */
final class Served {
  private Served() {}

  /** Returns a plan that scans nothing. */
  static LogicalPlan whole(LogicalPlan plan, Scan scan, Question question) throws Declined {
    LogicalPlan counted = counted(plan, scan, question);
    if (counted != null) {
      return counted;
    }
    question.checkGains();
    return rows(plan, scan, question);
  }

  /** Returns a plan of the rows of an aggregate, or null where it is none or the index does not tell them. */
  static LogicalPlan counted(LogicalPlan plan, Scan scan, Question question) throws Declined {
    return plan instanceof Aggregate aggregate ? Counts.served(aggregate, scan, question) : null;
  }

  /** Returns a plan over the few rows that the filters leave. */
  static LogicalPlan rows(LogicalPlan plan, Scan scan, Question question) throws Declined {
    LogicalPlan rows = Rows.served(scan, question);
    LogicalPlan scanned = Targets.scanned(plan);
    return plan.transformDown(new NodeChange<LogicalPlan>(node -> node == scanned ? rows : null));
  }
}
