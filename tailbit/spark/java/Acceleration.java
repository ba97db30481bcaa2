package io.tailbit.spark;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * The way in: as `spark.sql.extensions`, or by `attach` in a session that runs.
 *
 * One rule must run after Delta has pinned a version, where Spark runs the session's own optimizations; the other one
 * before Delta lists files. As an extension both are added when the session analyzes its first plan, which is before
 * the plan is optimized.
 */
public final class Acceleration extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectCheckRule(
        session -> {
          boolean[] attached = {false};
          Function1<LogicalPlan, BoxedUnit> check =
              plan -> {
                if (!attached[0]) {
                  attached[0] = true;
                  attach(session);
                  Helper.await(Settings.start());
                }
                return BoxedUnit.UNIT;
              };
          return check;
        });
    return BoxedUnit.UNIT;
  }

  /** Adds the rules to a session, once, and starts the helper. */
  public static void attach(SparkSession session) {
    synchronized (Acceleration.class) {
      if (!isAttached(session)) {
        Seq<Rule<LogicalPlan>> rules = session.experimental().extraOptimizations();
        session.experimental().extraOptimizations_$eq(appended(rules, new LateRule()));
      }
    }
    EarlyRule.inject(session);
    Helper.start(session.conf().get("spark.tailbit.python", "python3"));
  }

  /** Takes the late rule out of a session; the early one serves only where it is. */
  @SuppressWarnings("unchecked")
  public static void detach(SparkSession session) {
    synchronized (Acceleration.class) {
      Seq<Rule<LogicalPlan>> rules = session.experimental().extraOptimizations();
      session.experimental()
          .extraOptimizations_$eq((Seq<Rule<LogicalPlan>>) rules.filterNot(rule -> rule instanceof LateRule));
    }
  }

  public static boolean isAttached(SparkSession session) {
    return session.experimental().extraOptimizations().exists(rule -> rule instanceof LateRule);
  }

  /** Waits until the helper answers; returns why it does not, or nothing. */
  public static String ready(long milliseconds) throws InterruptedException {
    return Helper.ready(milliseconds);
  }

  /** Returns what became of the scans of the session's last query, as JSON. */
  public static String last(SparkSession session) throws Exception {
    return Notes.last(session);
  }

  /** Returns how many scans of this JVM a mode has served. */
  public static long served(String mode) {
    return Notes.number(mode);
  }

  /** Returns how many questions the helper has been asked. */
  public static long asked() {
    return Helper.asked();
  }

  /** Forgets which columns are indexed and what was refused, so that a new index is used at once. */
  public static void forget() {
    Known.forget();
    Refused.forget();
  }

  /** Returns the id of the helper's process, or -1. */
  public static long helper() {
    return Helper.process();
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Seq<Rule<LogicalPlan>> appended(Seq<Rule<LogicalPlan>> rules, Rule<LogicalPlan> rule) {
    return (Seq<Rule<LogicalPlan>>) ((Seq) rules).appended(rule);
  }
}
