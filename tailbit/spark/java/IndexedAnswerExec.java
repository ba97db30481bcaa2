package io.tailbit.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The scan of what the index answers, filtered and projected when the query runs.
 *
 * What is collected or taken is evaluated by the driver, row by row and without a job, so that an error in a row that
 * is not taken does not show. Below other operators Spark's own filter and projection do it, on executors, which need
 * no class of this one.
 */
public final class IndexedAnswerExec extends DriverLeafExec {
  private final transient LogicalPlan plan;
  private final transient LogicalRelation relation;
  private final transient IndexedAnswer answer;
  private final transient Seq<NamedExpression> shown;
  /** The filters together, or null. */
  private final transient Expression condition;

  /** The rows that pass the filter, by Spark's own operators. */
  private final transient SparkPlan filtered;

  /** `plan`: filters and projections of the relation of an answer. */
  public IndexedAnswerExec(LogicalPlan plan) {
    super(plan);
    this.plan = plan;
    var operation = PhysicalOperation.unapply(plan).get();
    relation = (LogicalRelation) operation._3();
    answer = IndexedAnswer.of(relation);
    shown = operation._1();
    condition = CollectionConverters.asJava(operation._2()).stream().reduce(And::new).orElse(null);
    SparkPlan all = new AnswerRowsExec(relation, answer);
    filtered = condition == null ? all : new FilterExec(condition, all);
  }

  @Override
  public Map<String, SQLMetric> metrics() {
    return filtered.metrics();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new ProjectExec(shown, filtered).execute();
  }

  @Override
  public InternalRow[] executeCollect() {
    return evaluated(Integer.MAX_VALUE);
  }

  @Override
  public InternalRow[] executeTake(int most) {
    return evaluated(most);
  }

  @Override
  public InternalRow[] executeTail(int most) {
    InternalRow[] rows = evaluated(Integer.MAX_VALUE);
    return Arrays.copyOfRange(rows, Math.max(0, rows.length - most), rows.length);
  }

  /** Evaluates rows until some are there: one thread at a time, since expressions may keep what they did last. */
  private synchronized InternalRow[] evaluated(int most) {
    Seq<Attribute> columns = filtered.output();
    var passes = condition == null ? null : new InterpretedMutableProjection(IndexedAnswer.seq(List.of(condition)), columns);
    var projected = new InterpretedMutableProjection(expressions(shown), columns);
    var packed = UnsafeProjection.create(expressions(output()), output());
    List<InternalRow> rows = new ArrayList<>();
    for (InternalRow row : answer.rows) {
      if (rows.size() >= most) {
        break;
      }
      InternalRow told = passes == null ? null : passes.apply(row);
      if (told == null || !told.isNullAt(0) && told.getBoolean(0)) {
        rows.add(packed.apply(projected.apply(row)).copy());
      }
    }
    count(longMetric("numOutputRows"), rows.size());
    return rows.toArray(new InternalRow[0]);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Seq<Expression> expressions(Seq<?> items) {
    return (Seq) items;
  }

  @Override
  public SparkPlan doCanonicalize() {
    return new IndexedAnswerExec(plan.canonicalized());
  }

  @Override
  public String nodeName() {
    return "IndexedAnswer";
  }

  @Override
  public Iterator<Object> stringArgs() {
    List<Object> told = new ArrayList<>(List.of(shown));
    if (condition != null) {
      told.add("Filter: " + condition);
    }
    told.add("Table: " + relation.catalogTable().map(table -> table.identifier().unquotedString()).getOrElse(() -> answer.path()));
    told.add("Version: " + answer.version());
    told.add("Location: " + answer.path());
    told.add("Rows: " + answer.rows.size());
    return CollectionConverters.asScala(told.iterator());
  }
}
