package io.tailbit.spark;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.collection.immutable.Seq;

/**
 * Plans what the index answers as a scan of ours, with the filters and the projection over it that are Spark's own,
 * and EXPLAIN with what the index did.
 *
 * Functions that somebody has brought run where Spark runs them, on executors: operators over the scan evaluate these.
 */
final class AnswerStrategy extends SparkStrategy {
  private static final String OWN = "org.apache.spark.sql.catalyst.expressions.";

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    if (plan instanceof ExplainCommand explain) {
      boolean isAsked = Settings.enabled() && Acceleration.isAttached(SparkSession.active());
      return IndexedAnswer.seq(isAsked ? List.of(new ExplainExec(explain)) : List.of());
    }
    return IndexedAnswer.seq(isOverAnswer(plan) ? List.of(planned(plan)) : List.of());
  }

  /** Returns the scan of an answer, or an operator over it for what tasks evaluate. */
  private SparkPlan planned(LogicalPlan plan) {
    if (isOwn(plan)) {
      return new IndexedAnswerExec(plan);
    }
    return plan instanceof Filter filter
        ? new FilterExec(filter.condition(), planned(filter.child()))
        : new ProjectExec(((Project) plan).projectList(), planned(((Project) plan).child()));
  }

  /** Tells whether a plan is the relation of an answer, or filters and projects one: most plans are none. */
  private static boolean isOverAnswer(LogicalPlan plan) {
    LogicalPlan below = plan;
    while (below instanceof Project || below instanceof Filter) {
      below = ((UnaryNode) below).child();
    }
    return IndexedAnswer.of(below) != null;
  }

  private static boolean isOwn(LogicalPlan plan) {
    var operation = PhysicalOperation.unapply(plan);
    return operation.isDefined()
        && IndexedAnswer.of(operation.get()._3()) != null
        && operation.get()._1().forall(shown -> isOwn((Expression) shown))
        && operation.get()._2().forall(AnswerStrategy::isOwn);
  }

  /** Tells whether an expression has only parts of Spark's own that are evaluated by themselves. */
  private static boolean isOwn(Expression expression) {
    return expression.deterministic() && !expression.exists(AnswerStrategy::isBrought);
  }

  private static boolean isBrought(Expression part) {
    String name = part.getClass().getName();
    return !name.startsWith(OWN)
        || name.startsWith(OWN + "objects.")
        || part instanceof UserDefinedExpression
        || part instanceof PlanExpression
        || part instanceof Unevaluable && !(part instanceof AttributeReference);
  }
}
