package tailbit;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import scala.Option;

/**
 * Runs a statement of Delta's that changes a table, and tells which version it has committed.
 *
 * Delta takes the transaction of an application from the settings of the session, for whatever the session writes, and
 * tells there which version was committed last, by whatever thread. So the statement is analysed in the session, with
 * its views, variables and catalogs, and runs in a copy of the session, in which nothing else runs.
 */
public class DeltaStatement {
  private static final String APPLICATION = "spark.databricks.delta.write.txnAppId";
  private static final String NUMBER = "spark.databricks.delta.write.txnVersion";
  private static final String COMMITTED = "spark.databricks.delta.lastCommitVersionInSession";
  private long version = -1;

  /** Returns the row of a statement, in which a view of a name holds some rows; view and rows may be null, application too. */
  public Row run(
      SparkSession spark, String statement, String view, Dataset rows, String application, long number)
      throws ParseException {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) spark;
    // Delta asks the thread for its session, and a new thread of Python has none.
    SparkSession.setActiveSession(session);
    LogicalPlan analyzed = analyzed(session, statement, view, rows);
    org.apache.spark.sql.classic.SparkSession copy = session.cloneSession();
    copy.conf().unset(COMMITTED);
    if (application != null) {
      copy.conf().set(APPLICATION, application);
      copy.conf().set(NUMBER, Long.toString(number));
    }
    Row row = (Row) org.apache.spark.sql.classic.Dataset.ofRows(copy, analyzed).head();
    Option committed = copy.conf().getOption(COMMITTED);
    if (committed.isDefined()) {
      version = Long.parseLong((String) committed.get());
      session.conf().set(COMMITTED, (String) committed.get());
    }
    return row;
  }

  private static LogicalPlan analyzed(
      org.apache.spark.sql.classic.SparkSession session, String statement, String view, Dataset rows)
      throws ParseException {
    if (rows != null) {
      LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) rows).logicalPlan();
      org.apache.spark.sql.classic.Dataset.ofRows(session, plan).createOrReplaceTempView(view);
    }
    try {
      LogicalPlan parsed = session.sessionState().sqlParser().parsePlan(statement);
      return session.sessionState().executePlan(parsed, CommandExecutionMode$.MODULE$.SKIP()).analyzed();
    } finally {
      if (rows != null) {
        session.sessionState().catalog().dropTempView(view);
      }
    }
  }

  /** Returns the version that the statement has committed, or -1. */
  public long version() {
    return version;
  }
}
