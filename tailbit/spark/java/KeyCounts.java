package io.tailbit.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An aggregate over expressions of indexed columns, by the number of rows of each of their keys.
 *
 * Spark evaluates its own expressions, once for each key in place of once for each row, and adds the numbers up. So it
 * is whatever the session makes of them: only aggregates that this leaves as they are, or sums that cannot overflow.
 */
final class KeyCounts {
  private final Attribute count = Counts.column("count", DataTypes.LongType);

  private boolean tellsAll = true;

  private KeyCounts() {}

  /** Returns the aggregate over keys and their numbers of rows, or null where these do not tell it. */
  static LogicalPlan folded(Aggregate aggregate, Scan scan, Question question) throws Declined {
    KeyCounts keys = new KeyCounts();
    List<NamedExpression> shown = new ArrayList<>(scan.shown());
    LogicalPlan reader = aggregate.child() instanceof Expand expand ? expand : aggregate;
    shown.removeIf(column -> !reader.references().contains(column.toAttribute()));
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(scan.relation().output()));
    columns.removeIf(column -> shown.stream().noneMatch(read -> ((Expression) read).references().contains(column)));
    var weighted = new NodeChange<Expression>(keys::replacement);
    LogicalPlan changed = aggregate.mapExpressions(expression -> expression.transformUp(weighted));
    boolean isDeterministic = shown.stream().allMatch(column -> ((Expression) column).deterministic());
    if (columns.isEmpty() || !keys.tellsAll || !isDeterministic) {
      return null;
    }
    List<String> names = new ArrayList<>();
    for (Attribute column : columns) {
      Words.checkCalendar(column.dataType());
      names.add(question.column(column));
    }
    columns.add(keys.count);
    shown.add(keys.count);
    List<DataType> types = columns.stream().map(Expression::dataType).toList();
    int most = Counts.MOST_GROUPS;
    List<InternalRow> rows = Values.rows(question.groups(names, List.of(), most), types, most);
    LogicalPlan read = new Project(IndexedAnswer.seq(shown), IndexedAnswer.relation(scan, columns, rows));
    // One task adds keys up, and exchanges none.
    LogicalPlan together = new Repartition(1, false, read);
    LogicalPlan child = reader instanceof Expand expand ? keys.expanded(expand, together) : together;
    return changed.withNewChildren(IndexedAnswer.seq(List.of(child)));
  }

  /** Returns keys as often as ROLLUP and the like have the rows, each time with their numbers of rows. */
  private LogicalPlan expanded(Expand expand, LogicalPlan keys) {
    List<Seq<Expression>> projections = new ArrayList<>();
    for (Seq<Expression> projection : CollectionConverters.asJava(expand.projections())) {
      projections.add(withCount(projection));
    }
    return new Expand(IndexedAnswer.seq(projections), withCount(expand.output()), keys);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private <T> Seq<T> withCount(Seq<T> items) {
    return (Seq<T>) ((Seq) items).appended(count);
  }

  /** Returns an aggregate weighed by the number of rows of a key, or null for what stays as it is. */
  private Expression replacement(Expression expression) {
    if (!(expression instanceof AggregateExpression aggregated)) {
      return null;
    }
    Expression told = weighted(aggregated);
    tellsAll &= told != null && expression.deterministic();
    return told;
  }

  /** Returns an aggregate over keys that is the one over their rows, or null. */
  private Expression weighted(AggregateExpression aggregated) {
    AggregateFunction function = aggregated.aggregateFunction();
    boolean isOfKeys = function instanceof Min || function instanceof Max || function instanceof Count;
    if (isOfKeys && (aggregated.isDistinct() || !(function instanceof Count))) {
      return aggregated;
    }
    List<Expression> children = CollectionConverters.asJava(function.children());
    if (function instanceof Count) {
      Expression isSome =
          children.stream().filter(child -> !Counts.isSome(child)).map(child -> (Expression) new IsNotNull(child))
              .reduce(And::new).orElse(null);
      Expression rows = isSome == null ? count : new If(isSome, count, number(0));
      return new Coalesce(IndexedAnswer.seq(List.of(sum(aggregated, new Sum(rows)), number(0))));
    }
    boolean isOfFew = function instanceof Sum && !aggregated.isDistinct() && isFew(children.get(0).dataType());
    return isOfFew ? sum(aggregated, new Sum(new Multiply(asLong(children.get(0)), count))) : null;
  }

  private static Expression sum(AggregateExpression aggregated, Sum sum) {
    return aggregated.copy(sum, aggregated.mode(), false, aggregated.filter(), NamedExpression.newExprId());
  }

  /** Tells whether no number of rows makes a sum of a type overflow. */
  private static boolean isFew(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType;
  }

  private static Expression asLong(Expression value) {
    return new Cast(value, DataTypes.LongType, Option.empty());
  }

  private static Literal number(long value) {
    return new Literal(value, DataTypes.LongType);
  }
}
