package io.tailbit.spark;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** EXPLAIN of a statement, with a line for each of its scans: what the index did, or why it did nothing. */
public final class ExplainExec extends DriverLeafExec {
  private final transient ExplainCommand explain;

  public ExplainExec(ExplainCommand explain) {
    super(explain);
    this.explain = explain;
  }

  private List<InternalRow> rows() {
    SparkSession session = SparkSession.active();
    Notes before = Notes.lastOf(session);
    List<Row> rows = CollectionConverters.asJava(explain.run(session));
    Notes notes = Notes.lastOf(session);
    List<String> lines = notes == null || notes == before ? List.of() : notes.lines();
    String more = lines.isEmpty() ? "" : "\n== Index ==\n" + String.join("\n", lines) + "\n";
    return rows.stream()
        .map(row -> new Object[] {UTF8String.fromString(row.getString(0) + (rows.size() == 1 ? more : ""))})
        .map(values -> (InternalRow) new GenericInternalRow(values))
        .toList();
  }

  @Override
  public InternalRow[] executeCollect() {
    return rows().toArray(new InternalRow[0]);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new LocalTableScanExec(output(), IndexedAnswer.seq(rows()), Option.empty()).execute();
  }

  @Override
  public String nodeName() {
    return "Explain";
  }
}
