package io.tailbit.spark;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.SparkStrategy;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
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
  private static final Logger LOG = LoggerFactory.getLogger(Acceleration.class);

  /** The session that was accelerated while it ran, of those that share extensions. */
  private static final Map<SparkSessionExtensions, WeakReference<SparkSession>> GIVEN = new WeakHashMap<>();

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    atFirstAnalysis(
        extensions,
        session -> {
          attach(session);
          Helper.await(Settings.start());
        });
    return BoxedUnit.UNIT;
  }

  /** Does something with each session of the extensions before its first plan is optimized; no failure is the query's. */
  private static void atFirstAnalysis(SparkSessionExtensions extensions, Consumer<SparkSession> what) {
    extensions.injectTableFunction(Report.function());
    extensions.injectCheckRule(
        session -> {
          boolean[] done = {false};
          Function1<LogicalPlan, BoxedUnit> check =
              plan -> {
                if (!done[0]) {
                  done[0] = true;
                  try {
                    what.accept(session);
                  } catch (LinkageError | RuntimeException otherRelease) {
                    Notes.otherRelease(session, otherRelease);
                  }
                }
                return BoxedUnit.UNIT;
              };
          return check;
        });
  }

  /**
   * Adds the rules to a session that runs, and to those that `newSession` makes of it from then on, with the settings
   * that the session has when they analyze their first plan.
   */
  public static void attachWithNewSessions(SparkSession session) {
    attach(session);
    SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
    synchronized (Acceleration.class) {
      if (GIVEN.put(extensions, new WeakReference<>(session)) != null) {
        return;
      }
    }
    atFirstAnalysis(extensions, Acceleration::attachAsGiven);
  }

  private static void attachAsGiven(SparkSession session) {
    SparkSession given;
    synchronized (Acceleration.class) {
      given = GIVEN.get(((org.apache.spark.sql.classic.SparkSession) session).extensions()).get();
    }
    if (given == null || given == session || !isAttached(given) || isAttached(session)) {
      return;
    }
    Map<String, String> settings = CollectionConverters.asJava(given.conf().getAll());
    settings.forEach(
        (name, value) -> {
          if (name.startsWith("spark.tailbit.") && !session.conf().contains(name)) {
            session.conf().set(name, value);
          }
        });
    attach(session);
  }

  /** Adds the rules to a session, once, and starts the helper. */
  public static void attach(SparkSession session) {
    synchronized (Acceleration.class) {
      if (!isAttached(session)) {
        Seq<Rule<LogicalPlan>> rules = session.experimental().extraOptimizations();
        session.experimental().extraOptimizations_$eq(appended(rules, new LateRule()));
        Seq<SparkStrategy> strategies = session.experimental().extraStrategies();
        if (!strategies.exists(strategy -> strategy instanceof AnswerStrategy)) {
          session.experimental().extraStrategies_$eq(appended(strategies, new AnswerStrategy()));
        }
      }
    }
    Report.register(session);
    EarlyRule.inject(session);
    Helper.start(session.conf().get("spark.tailbit.python", "python3"));
  }

  /**
   * Takes the late rule out of a session; the early one serves only where it is. Plans that are made already are still
   * run: the strategy stays.
   */
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

  /** Returns the digest of the sources that this jar is of. */
  public static String sources() {
    return Release.sources();
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
  private static <T> Seq<T> appended(Seq<T> items, T item) {
    return (Seq<T>) ((Seq) items).appended(item);
  }
}
