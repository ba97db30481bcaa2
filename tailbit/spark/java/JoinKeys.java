package io.tailbit.spark;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What joins say of a scan's columns: where the rows of the other side stand in the plan, its keys are among theirs.
 *
 * A row of a scan whose key is none of these matches nothing. It may be left out where a join shows no row that
 * matches nothing: of both sides of an inner or a semi join, of the side that may be NULL of an outer one, of the right
 * side of an anti join. NULL is equal to nothing. The join stays.
 */
final class JoinKeys {
  private static final int MOST_KEYS = 10_000;

  /** Types whose values are equal where Java says so: not 0.0 and -0.0, letters of a collation, or bytes. */
  private static final Predicate<DataType> IS_EQUAL_AS_VALUE =
      type ->
          type instanceof NumericType && !(type instanceof FloatType || type instanceof DoubleType)
              || type instanceof DateType
              || type instanceof TimestampType
              || type instanceof TimestampNTZType
              || DataTypes.StringType.equals(type);

  private JoinKeys() {}

  /**
   * What a join says of a relation: an expression of its columns is one of some keys, none of them NULL. `shrinks`:
   * whether rows that it rules out would go through more than their scan, for which a filter pays: they are
   * aggregated, joined otherwise, on the side that the join gathers, or joined with what Spark takes for large.
   */
  record Implied(Expression own, Set<Object> keys, DataType type, boolean shrinks) {
    /** Returns the condition, which is NULL where there is no key. */
    In condition() {
      List<Expression> list = new ArrayList<>();
      keys.forEach(key -> list.add(new Literal(key, type)));
      return new In(own, IndexedAnswer.seq(list.isEmpty() ? List.of(new Literal(null, type)) : list));
    }
  }

  /** Returns conditions that the wanted rows of a relation satisfy, of a plan of which it is the last of a path. */
  static List<Implied> of(List<LogicalPlan> path) {
    LogicalRelation relation = (LogicalRelation) path.get(path.size() - 1);
    List<Implied> conditions = new ArrayList<>();
    for (int place = 0; place < path.size() - 1; place++) {
      if (path.get(place) instanceof Join join && join.condition().isDefined()) {
        List<LogicalPlan> below = path.subList(place + 1, path.size());
        boolean isLeft = join.left() == below.get(0);
        if (mayLeaveOut(join.joinType(), isLeft)) {
          LogicalPlan other = isLeft ? join.right() : join.left();
          boolean streams = join.joinType() == Inner$.MODULE$ || isLeft && join.joinType() == LeftSemi$.MODULE$;
          boolean shrinks =
              !streams
                  || other.exists(Join.class::isInstance)
                  || below.stream().anyMatch(node -> node instanceof Join || node instanceof Aggregate);
          for (Expression equal : conjuncts(join.condition().get())) {
            Implied implied = implied(equal, below, other, relation, shrinks);
            if (implied != null) {
              conditions.add(implied);
            }
          }
        }
      }
    }
    return conditions;
  }

  private static boolean mayLeaveOut(JoinType type, boolean isLeft) {
    return type == Inner$.MODULE$
        || type == LeftSemi$.MODULE$
        || type == (isLeft ? RightOuter$.MODULE$ : LeftOuter$.MODULE$)
        || !isLeft && type == LeftAnti$.MODULE$;
  }

  /** Tells whether a join shows the columns of a side as they are, in rows of that side alone. */
  private static boolean keeps(JoinType type, boolean isLeft) {
    return type == Inner$.MODULE$
        || type == (isLeft ? LeftOuter$.MODULE$ : RightOuter$.MODULE$)
        || isLeft && (type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$);
  }

  private static List<Expression> conjuncts(Expression condition) {
    if (condition instanceof And both) {
      List<Expression> all = new ArrayList<>(conjuncts(both.left()));
      all.addAll(conjuncts(both.right()));
      return all;
    }
    return List.of(condition);
  }

  /** Returns what an equality of a join says of a relation, or null. */
  private static Implied implied(
      Expression condition, List<LogicalPlan> below, LogicalPlan other, LogicalRelation relation, boolean shrinks) {
    if (!(condition instanceof EqualTo equal)) {
      return null;
    }
    boolean isFirst = equal.left().references().subsetOf(below.get(0).outputSet());
    Expression own = isFirst ? equal.left() : equal.right();
    Expression key = isFirst ? equal.right() : equal.left();
    own = ofLast(below, own);
    if (own == null || !isOf(own, relation)) {
      return null;
    }
    Set<Object> values = values(key, other);
    boolean isTold = values != null && values.size() <= MOST_KEYS;
    return isTold ? new Implied(own, values, key.dataType(), shrinks) : null;
  }

  /** Returns filters of rows by the keys of joins, as far as these pay and equal keys are equal values. */
  static List<KeySet> filters(List<Implied> implied) {
    return implied.stream()
        .filter(keys -> keys.shrinks() && IS_EQUAL_AS_VALUE.test(keys.own().dataType()))
        .map(keys -> new KeySet(keys.own(), keys.keys()))
        .toList();
  }

  /** Returns an expression of what the first node of a path shows as one of the last, or null. */
  static Expression ofLast(List<LogicalPlan> path, Expression shown) {
    Expression own = shown;
    for (int place = 0; place < path.size() - 1 && own != null; place++) {
      own = below(path.get(place), path.get(place + 1), own);
    }
    return own;
  }

  /** Returns an expression in which subqueries of one row that is answered already are its values. */
  static Expression withValues(Expression expression) {
    return expression.transformUp(new NodeChange<Expression>(JoinKeys::valueOf));
  }

  private static Expression valueOf(Expression expression) {
    if (!(expression instanceof ScalarSubquery subquery && subquery.children().isEmpty())) {
      return null;
    }
    LogicalPlan plan = subquery.plan();
    Expression shown = plan.output().apply(0);
    while (plan instanceof Project && shown != null) {
      shown = below(plan, shown);
      plan = plan.children().apply(0);
    }
    List<InternalRow> rows = rows(plan);
    if (rows == null || rows.size() != 1 || shown == null || !isOf(shown, plan)) {
      return null;
    }
    Set<Object> values = values(shown, rows, plan);
    return new Literal(values.isEmpty() ? null : values.iterator().next(), shown.dataType());
  }

  private static boolean isOf(Expression expression, LogicalPlan relation) {
    return !expression.references().isEmpty() && expression.references().subsetOf(relation.outputSet());
  }

  /** Returns an expression of what a node shows as one of a child of it, or null. */
  private static Expression below(LogicalPlan node, LogicalPlan child, Expression shown) {
    if (node instanceof Join join) {
      return keeps(join.joinType(), join.left() == child) ? shown : null;
    }
    return below(node, shown);
  }

  /** Returns an expression of what a node with one child shows as one of the child, or null. */
  private static Expression below(LogicalPlan node, Expression shown) {
    if (node instanceof Filter) {
      return shown;
    }
    if (node instanceof Project project) {
      return replaced(shown, CollectionConverters.asJava(project.projectList()));
    }
    if (node instanceof Aggregate aggregate) {
      Expression key = replaced(shown, CollectionConverters.asJava(aggregate.aggregateExpressions()));
      boolean isGroup = key != null && isColumn(key) && aggregate.groupingExpressions().exists(key::semanticEquals);
      return isGroup ? key : null;
    }
    return null;
  }

  /** Returns a column, or a cast of one, that is shown by another name. */
  private static Expression replaced(Expression shown, List<NamedExpression> list) {
    if (shown instanceof Cast cast) {
      Expression child = replaced(cast.child(), list);
      return child == null ? null : cast.withNewChildren(IndexedAnswer.seq(List.of(child)));
    }
    for (NamedExpression named : list) {
      if (shown instanceof AttributeReference column && named.exprId().equals(column.exprId())) {
        Expression value = named instanceof Alias alias ? alias.child() : (Expression) named;
        return isColumn(value) ? value : null;
      }
    }
    return null;
  }

  /** Tells whether a value is that of a column, perhaps as a longer integer, which raises no error. */
  private static boolean isColumn(Expression value) {
    return value instanceof AttributeReference
        || value instanceof Cast cast && Words.widens(cast.child().dataType(), cast.dataType()) && isColumn(cast.child());
  }

  /** Returns all values of a key of a plan, or more, where its rows stand in the plan; else null. Or too many. */
  private static Set<Object> values(Expression key, LogicalPlan plan) {
    if (!isColumn(key)) {
      return null;
    }
    List<InternalRow> rows = rows(plan);
    if (rows != null) {
      return isOf(key, plan) ? values(key, rows, plan) : null;
    }
    if (plan instanceof Join join) {
      boolean isLeft = key.references().subsetOf(join.left().outputSet());
      return keeps(join.joinType(), isLeft) ? values(key, isLeft ? join.left() : join.right()) : null;
    }
    Expression shown = below(plan, key);
    return shown == null ? null : values(shown, plan.children().apply(0));
  }

  /** Returns the rows that stand in a plan: those that the index has answered, or that the statement or Delta gives. */
  private static List<InternalRow> rows(LogicalPlan plan) {
    if (plan instanceof LocalRelation local) {
      return local.isStreaming() ? null : CollectionConverters.asJava(local.data());
    }
    IndexedAnswer answer = IndexedAnswer.of(plan);
    return answer == null ? null : answer.rows;
  }

  private static Set<Object> values(Expression key, List<InternalRow> rows, LogicalPlan relation) {
    List<Expression> shown = List.of(key);
    var projected = new InterpretedMutableProjection(IndexedAnswer.seq(shown), relation.output());
    Set<Object> values = new LinkedHashSet<>();
    for (InternalRow row : rows) {
      Object value = projected.apply(row).get(0, key.dataType());
      if (value != null) {
        values.add(value);
      }
      if (values.size() > MOST_KEYS) {
        break;
      }
    }
    return values;
  }
}
