package io.tailbit.spark;

import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.LeafExecNode;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** EXPLAIN of a statement, with a line for each of its scans: what the index did, or why it did nothing. */
public final class ExplainExec extends SparkPlan implements LeafExecNode {
  private final transient ExplainCommand explain;
  private final Seq<Attribute> output;

  public ExplainExec(ExplainCommand explain) {
    this.explain = explain;
    this.output = explain.output();
  }

  /** Stands on executors for what gives the same columns. */
  private Object writeReplace() {
    return new LocalTableScanExec(output, IndexedAnswer.seq(List.of()), Option.empty());
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
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public InternalRow[] executeCollect() {
    return rows().toArray(new InternalRow[0]);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new LocalTableScanExec(output, IndexedAnswer.seq(rows()), Option.empty()).execute();
  }

  @Override
  public String nodeName() {
    return "Explain";
  }

  @Override
  public Seq<SparkPlan> children() {
    return IndexedAnswer.seq(List.of());
  }

  @Override
  public SparkPlan mapChildren(Function1<SparkPlan, SparkPlan> change) {
    return this;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int place) {
    return explain;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof ExplainExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ExplainExec that && explain.equals(that.explain);
  }

  @Override
  public int hashCode() {
    return explain.hashCode();
  }
}
