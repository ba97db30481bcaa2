package io.tailbit.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Counts of rows, of all or by some columns, least and greatest values and numbers of distinct ones, from bitmaps.
 */
final class Counts {
  /** The most groups that a plan holds. */
  static final int MOST_GROUPS = 10_000;

  private final List<Attribute> by = new ArrayList<>();
  private final Attribute count = column("count", DataTypes.LongType);
  /** What is measured of columns, by the text of its function and column. */
  private final Map<List<String>, Attribute> measures = new LinkedHashMap<>();

  private final List<NamedExpression> results = new ArrayList<>();
  private final Question question;
  private boolean isDeclined;

  private Counts(Question question) {
    this.question = question;
  }

  /** Returns a plan of the rows of an aggregate, or null where it is none of counts or the index does not tell them. */
  static LogicalPlan served(Aggregate aggregate, Scan scan, Question question) throws Declined {
    List<Expression> grouping = CollectionConverters.asJava(aggregate.groupingExpressions());
    String mode = grouping.isEmpty() ? "counts" : "groups";
    if (!Settings.serves(mode)) {
      return null;
    }
    try {
      boolean isByColumns = grouping.stream().allMatch(column -> isOf(scan, column));
      LogicalPlan served = isByColumns ? new Counts(question).told(aggregate, scan) : null;
      served = served == null ? KeyCounts.folded(aggregate, scan, question) : served;
      if (served != null) {
        Notes.served(question.note, mode);
      }
      return served;
    } catch (Declined declined) {
      question.note.put("not_counted", declined.reason);
      Notes.lacks(question.note, declined.reason, declined.detail);
      if (Helper.isAbsent(declined)) {
        // Nobody answers other questions either.
        throw declined;
      }
      return null;
    }
  }

  private static boolean isOf(Scan scan, Expression column) {
    return column instanceof AttributeReference read && scan.relation().outputSet().contains(read);
  }

  /** Returns a plan of the rows of an aggregate by columns, or null where it shows more than counts and measures. */
  private LogicalPlan told(Aggregate aggregate, Scan scan) throws Declined {
    CollectionConverters.asJava(aggregate.groupingExpressions()).forEach(column -> by.add((AttributeReference) column));
    return tellsAll(aggregate)
        ? new Project(IndexedAnswer.seq(results), IndexedAnswer.relation(scan, columns(), rows()))
        : null;
  }

  /** Tells whether the results are over grouping columns, the count and measures, and notes how they are. */
  private boolean tellsAll(Aggregate aggregate) {
    for (NamedExpression result : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      Expression changed = ((Expression) result).transformDown(new NodeChange<Expression>(this::measured));
      if (isDeclined) {
        return false;
      }
      boolean tellsAll =
          !changed.exists(part -> part instanceof AggregateExpression)
              && CollectionConverters.asJava(changed.references().toSeq()).stream()
                  .allMatch(read -> columns().stream().anyMatch(column -> column.exprId().equals(read.exprId())));
      if (!tellsAll) {
        return false;
      }
      results.add((NamedExpression) changed);
    }
    return true;
  }

  private List<Attribute> columns() {
    List<Attribute> columns = new ArrayList<>(by);
    columns.add(count);
    columns.addAll(measures.values());
    return columns;
  }

  private List<InternalRow> rows() throws Declined {
    if (by.isEmpty() && measures.isEmpty()) {
      return List.of(new GenericInternalRow(new Object[] {question.count()}));
    }
    List<String> names = new ArrayList<>();
    for (Attribute column : by) {
      names.add(question.column(column));
    }
    List<DataType> types = columns().stream().map(Expression::dataType).toList();
    return Values.rows(question.groups(names, List.copyOf(measures.keySet()), MOST_GROUPS), types, MOST_GROUPS);
  }

  /** Returns the number of rows for a count of all rows, and a measure for others; null for what stays as it is. */
  private Expression measured(Expression expression) {
    if (!(expression instanceof AggregateExpression aggregated) || aggregated.filter().isDefined()) {
      return null;
    }
    try {
      return told(aggregated);
    } catch (Declined refused) {
      isDeclined = true;
      return null;
    }
  }

  /** Returns what tells an aggregate, or null. */
  private Attribute told(AggregateExpression aggregated) throws Declined {
    AggregateFunction function = aggregated.aggregateFunction();
    boolean isCount = function instanceof Count;
    if (isCount && !aggregated.isDistinct() && function.children().forall(Counts::isSome)) {
      return count;
    }
    String name =
        function instanceof Min ? "min" : function instanceof Max ? "max"
            : !isCount ? null : aggregated.isDistinct() ? "distinct" : "count";
    boolean isOfColumn = name != null && function.children().size() == 1
        && function.children().apply(0) instanceof AttributeReference;
    if (!isOfColumn || isCount && !by.isEmpty()) {
      return null;
    }
    if (name.equals("distinct")) {
      Words.checkCalendar(function.children().apply(0).dataType());
    }
    List<String> measure = List.of(name, question.column(function.children().apply(0)));
    measures.computeIfAbsent(measure, pair -> column(name, aggregated.dataType()));
    return measures.get(measure);
  }

  /** Tells whether a count of an expression counts every row. */
  static boolean isSome(Expression child) {
    return child instanceof Literal literal && literal.value() != null;
  }

  /** Returns a new column of a relation; counts alone are never NULL. */
  static AttributeReference column(String name, DataType type) {
    return new AttributeReference(
        name, type, !name.equals("count"), Metadata.empty(), NamedExpression.newExprId(), IndexedAnswer.seq(List.of()));
  }
}
