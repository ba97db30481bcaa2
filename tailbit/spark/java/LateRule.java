package io.tailbit.spark;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.delta.DeltaTableUtils;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Lets scans of Delta tables read the files that the index names, in a plan and in all its subqueries.
 *
 * It runs after Delta has pinned the version of each scan. Where files are left out, every filter stays where it is,
 * so a file too many costs time and nothing else. Whatever is in doubt leaves the scan as it is.
 */
final class LateRule extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(LateRule.class);
  /** Marks relations that have been looked at: rules run until nothing changes. */
  private static final TreeNodeTag<Boolean> SEEN = new TreeNodeTag<>("tailbit.seen");

  /** What this release lacks, or null: then no query is looked at any more. */
  private static volatile LinkageError misfit;

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (!Settings.enabled()) {
      return plan;
    }
    if (misfit != null) {
      Notes.otherRelease(SparkSession.active(), misfit);
      return plan;
    }
    Notes notes = Notes.current();
    try {
      LogicalPlan changed = hasNew(plan) ? plan.transformDownWithSubqueries(new Scans(notes, plan)) : plan;
      notes.keep();
      return changed;
    } catch (LinkageError otherRelease) {
      misfit = otherRelease;
      Notes.otherRelease(SparkSession.active(), misfit);
      return plan;
    } catch (Exception wrong) {
      LOG.warn("tailbit leaves a query as it is", wrong);
      Notes.declined(notes.scan(), "error", wrong.toString());
      notes.keep();
      return plan;
    }
  }

  /** Tells whether a plan or a subquery of it scans what has not been looked at: most calls are the later ones. */
  private static boolean hasNew(LogicalPlan plan) {
    boolean[] has = {false};
    plan.foreachWithSubqueries(
        node -> {
          has[0] |=
              node instanceof LogicalRelation relation
                  && Scan.location(relation) instanceof PreparedDeltaFileIndex
                  && relation.getTagValue(SEEN).isEmpty();
          return BoxedUnit.UNIT;
        });
    return has[0];
  }

  /** Replaces the topmost filters over a scan that has not been looked at. */
  private static final class Scans extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final Notes notes;
    private final Guards guards;

    Scans(Notes notes, LogicalPlan query) {
      this.notes = notes;
      guards = new Guards(query);
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return true;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A plan, scala.Function1<A, B> otherwise) {
      return (B) accelerated(plan);
    }

    private LogicalPlan accelerated(LogicalPlan plan) {
      Scan scan = Scan.below(plan instanceof Aggregate aggregate ? aggregate.child() : plan);
      if (scan == null || scan.relation().getTagValue(SEEN).isDefined()) {
        return plan;
      }
      scan.relation().setTagValue(SEEN, true);
      Map<String, Object> note = notes.scan();
      try {
        Question question = new Question(scan, note);
        boolean mayCount = question.isExact();
        if (!mayCount) {
          question.checkGains();
        }
        if (guards.dependsOnOrder()) {
          throw new Declined("non-deterministic");
        }
        LogicalPlan counted = mayCount && !guards.namesFiles() ? Served.counted(plan, scan, question) : null;
        if (counted != null) {
          return counted;
        }
        question.checkGains();
        LogicalPlan rows = guards.namesFiles() ? null : rows(plan, scan, question);
        return rows == null ? files(plan, scan, question) : rows;
      } catch (Declined declined) {
        Notes.declined(note, declined.reason, declined.detail);
        return plan;
      }
    }
  }

  /** Returns a plan of few rows, or null where one may read fewer files. */
  private static LogicalPlan rows(LogicalPlan plan, Scan scan, Question question) throws Declined {
    try {
      return Served.rows(plan, scan, question);
    } catch (Declined declined) {
      question.note.put("no_rows", declined.reason);
      if (declined.reason.equals("keeps-all")) {
        throw declined;
      }
      return null;
    }
  }

  /** Returns a plan that reads fewer files. */
  private static LogicalPlan files(LogicalPlan plan, Scan scan, Question question) throws Declined {
    PreparedDeltaFileIndex planned = scan.planned();
    IndexedFiles kept = new IndexedFiles(planned, question.files());
    int before = planned.preparedScan().files().size();
    int after = kept.listed().size();
    if (after == before) {
      throw new Declined("keeps-all", after + " files");
    }
    question.note.put("files", after);
    question.note.put("of", before);
    Notes.served(question.note, "files");
    return DeltaTableUtils.replaceFileIndex(plan, kept);
  }
}
