package io.tailbit.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DenseRank;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.NullsLast$;
import org.apache.spark.sql.catalyst.expressions.SortDirection;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.MinBy;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.WindowGroupLimit;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Which rows of a scan a plan shows or looks at, where these are the first by a column: ORDER BY with a LIMIT, a window
 * without partitions that is filtered by `row_number`, `rank` or `dense_rank`, and `max_by` and its like, which look at
 * one. Rows with the same value as the last of them count, too. The order and the limit stay.
 *
 * `most`: of rows, or of distinct values.
 */
record FirstRows(
    AttributeReference column, int most, boolean isDistinct, boolean isDescending, boolean isNullFirst) {
  /** Returns what a plan says of a relation, of which it is the last of a path; null where it may show every row. */
  static FirstRows of(List<LogicalPlan> path) {
    int place = path.size() - 2;
    while (place >= 0 && (path.get(place) instanceof Project || path.get(place) instanceof Filter)) {
      place--;
    }
    if (place < 0) {
      return null;
    }
    List<LogicalPlan> below = path.subList(place + 1, path.size());
    if (path.get(place) instanceof Aggregate aggregate) {
      return ofAggregate(aggregate, below);
    }
    if (path.get(place) instanceof WindowGroupLimit window && window.partitionSpec().isEmpty()) {
      boolean isDistinct = window.rankLikeFunction() instanceof DenseRank;
      return by(window.orderSpec().apply(0), below, window.limit(), isDistinct);
    }
    return path.get(place) instanceof Sort sort && sort.global() ? ofSort(sort, path.subList(0, place), below) : null;
  }

  private static FirstRows ofSort(Sort sort, List<LogicalPlan> above, List<LogicalPlan> below) {
    int place = above.size() - 1;
    while (place >= 0 && above.get(place) instanceof Project) {
      place--;
    }
    Expression limit =
        place < 0 ? null
            : above.get(place) instanceof LocalLimit local ? local.limitExpr()
            : above.get(place) instanceof GlobalLimit global ? global.limitExpr() : null;
    if (!(limit instanceof Literal literal && literal.value() instanceof Integer most && most > 0)) {
      return null;
    }
    return by(sort.order().apply(0), below, most, false);
  }

  /** Returns the row that all aggregates look at: that with the greatest or the least value, which is not NULL. */
  private static FirstRows ofAggregate(Aggregate aggregate, List<LogicalPlan> below) {
    Set<FirstRows> all = new HashSet<>();
    for (NamedExpression shown : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      ((Expression) shown)
          .foreach(
              part -> {
                if (part instanceof AggregateExpression aggregated) {
                  all.add(ofFunction(aggregated, below));
                }
                return BoxedUnit.UNIT;
              });
    }
    return aggregate.groupingExpressions().isEmpty() && all.size() == 1 ? all.iterator().next() : null;
  }

  private static FirstRows ofFunction(AggregateExpression aggregated, List<LogicalPlan> below) {
    AggregateFunction function = aggregated.aggregateFunction();
    boolean isGreatest = function instanceof Max || function instanceof MaxBy;
    boolean isExtreme = isGreatest || function instanceof Min || function instanceof MinBy;
    return isExtreme && aggregated.filter().isEmpty()
        ? by(order(function.children().last(), isGreatest), below, 1, false)
        : null;
  }

  private static SortOrder order(Expression child, boolean isDescending) {
    SortDirection direction = isDescending ? Descending$.MODULE$ : Ascending$.MODULE$;
    return new SortOrder(child, direction, NullsLast$.MODULE$, IndexedAnswer.seq(List.of()));
  }

  private static FirstRows by(SortOrder order, List<LogicalPlan> below, int most, boolean isDistinct) {
    boolean isDescending = order.direction() == Descending$.MODULE$;
    return JoinKeys.ofLast(below, order.child()) instanceof AttributeReference column
        ? new FirstRows(column, most, isDistinct, isDescending, order.nullOrdering() == NullsFirst$.MODULE$)
        : null;
  }

  /** Returns a question for them, where they are by a column of a name. */
  ObjectNode asked(ObjectNode question, String name) {
    question.putObject("first").put("by", name).put("most", most).put("distinct", isDistinct)
        .put("descending", isDescending).put("nulls_first", isNullFirst);
    return question;
  }
}
