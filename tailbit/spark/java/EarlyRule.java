package io.tailbit.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;
import scala.collection.mutable.Buffer;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Puts counts and rows in the place of scans before Delta lists the files of their tables.
 *
 * The version is the one that Delta would pin a moment later. So it is done only for a table that the plan and its
 * subqueries scan once: another scan would be of a version of its own. It stands aside in a transaction, which must
 * remember what it reads, and before whatever writes.
 */
final class EarlyRule extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(EarlyRule.class);
  private static final Set<SparkSessionExtensions> INJECTED = Collections.newSetFromMap(new WeakHashMap<>());

  private static volatile boolean broken;

  private final SparkSession session;

  private EarlyRule(SparkSession session) {
    this.session = session;
  }

  /**
   * Puts the rule before Delta's own, which lists files, whenever the extensions were given; else only the late rule
   * serves. The list is replaced as a whole: others may walk through it.
   */
  @SuppressWarnings("unchecked")
  static synchronized void inject(SparkSession session) {
    try {
      SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
      if (INJECTED.contains(extensions)) {
        return;
      }
      Field field = SparkSessionExtensions.class.getDeclaredField("preCBORules");
      field.setAccessible(true);
      Function1<SparkSession, Rule<LogicalPlan>> builder = EarlyRule::new;
      List<Object> rules = new ArrayList<>(CollectionConverters.asJava((Buffer<Object>) field.get(extensions)));
      rules.add(0, builder);
      field.set(extensions, CollectionConverters.asScala(rules));
      INJECTED.add(extensions);
    } catch (ReflectiveOperationException | RuntimeException | LinkageError otherRelease) {
      broken = true;
      LOG.warn("tailbit does not serve before Delta lists files, in this release of Spark", otherRelease);
    }
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (broken || plan instanceof Subquery || !Settings.enabled() || !Acceleration.isAttached(session)) {
      return plan;
    }
    try {
      Map<Path, Integer> scans = scans(plan);
      if (!scans.containsValue(1) || plan.isStreaming() || !OptimisticTransaction.getActive().isEmpty()) {
        return plan;
      }
      Scans once = new Scans(scans, plan);
      return Targets.changed(plan, once::below, once::served);
    } catch (LinkageError otherRelease) {
      broken = true;
      LOG.warn("tailbit does not fit this release of Spark or Delta before files are listed", otherRelease);
      return plan;
    } catch (Exception wrong) {
      LOG.warn("tailbit leaves a query as it is", wrong);
      return plan;
    }
  }

  /** Returns how often a plan and its subqueries scan each table. */
  private static Map<Path, Integer> scans(LogicalPlan plan) {
    Map<Path, Integer> scans = new HashMap<>();
    plan.foreachWithSubqueries(
        node -> {
          if (node instanceof LogicalRelation relation && Scan.location(relation) instanceof TahoeFileIndex index) {
            scans.merge(index.deltaLog().dataPath(), 1, Integer::sum);
          }
          return BoxedUnit.UNIT;
        });
    return scans;
  }

  /**
   * Returns a plan that scans nothing, at the version that Delta would pin now. The index is asked at the version of
   * the analysis: to know a later one Delta lists its log, which a query that gains nothing need not wait for twice.
   */
  private static LogicalPlan answered(LogicalPlan plan, Scan scan, Question question) throws Declined {
    LogicalPlan answer = Served.whole(plan, scan, question);
    Scan pinned = scan.pinned();
    if (pinned.isOfVersionOf(scan)) {
      return answer;
    }
    question.note.clear();
    return Served.whole(plan, pinned, new Question(pinned, question.note));
  }

  /** Looks at scans of tables that the query scans once. */
  private static final class Scans {
    private final Map<Path, Integer> scans;
    private final LogicalPlan query;
    private final Guards guards;
    private final Notes notes = Notes.current();

    Scans(Map<Path, Integer> scans, LogicalPlan query) {
      this.scans = scans;
      this.query = query;
      guards = new Guards(query);
      notes.begin(query);
    }

    /** Returns the scan below a plan of a table that is scanned once, or null. */
    private Scan below(LogicalPlan plan) {
      Scan scan = Scan.notPlanned(plan);
      return scan != null && scans.getOrDefault(scan.at().deltaLog().dataPath(), 0) == 1 ? scan : null;
    }

    private LogicalPlan served(LogicalPlan plan, Scan scan, int place) {
      Map<String, Object> note = notes.scan(place);
      try {
        Question question = new Question(scan, note);
        question.checkKnown();
        if (mayRead()) {
          LogicalPlan answer = answered(plan, scan, question);
          note.put("early", true);
          return answer;
        }
      } catch (Declined declined) {
        // The late rule looks at the scan again, and notes why.
      }
      notes.without(note);
      return plan;
    }

    /** Tells whether the query writes nothing, and shows neither the order nor the files of rows. */
    private boolean mayRead() {
      return !query.exists(node -> node instanceof Command || node instanceof V2WriteCommand)
          && !guards.dependsOnOrder()
          && !guards.namesFiles();
    }
  }
}
