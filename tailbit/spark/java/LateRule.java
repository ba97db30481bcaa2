package io.tailbit.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.delta.DeltaLogFileIndex;
import org.apache.spark.sql.delta.DeltaTableUtils;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.BoxedUnit;

/**
 * Lets scans of Delta tables read the files that the index names, in a plan and in all its subqueries.
 *
 * It runs after Delta has pinned the version of each scan. Where files are left out, every filter stays where it is,
 * so a file too many costs time and nothing else. Where rows would go on into aggregates or other joins, those that a
 * join would leave out anyhow are left out where they are read. Whatever is in doubt leaves the scan as it is.
 */
final class LateRule extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(LateRule.class);
  private static final Set<String> OF_COSTS = Set.of("no-gain", "many-bytes", "late");

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
    notes.begin(plan);
    try {
      Scans scans = new Scans(notes, plan);
      LogicalPlan changed = hasNew(plan) ? Targets.changed(plan, LateRule::newBelow, scans::accelerated) : plan;
      noteSecondConnector(notes, plan);
      notes.keep(!plan.exists(LateRule::isOfNoStatement));
      return changed;
    } catch (LinkageError otherRelease) {
      misfit = otherRelease;
      Notes.otherRelease(SparkSession.active(), misfit);
      return plan;
    } catch (Exception wrong) {
      LOG.warn("tailbit leaves a query as it is", wrong);
      notes.begin(plan);
      Notes.declined(notes.scan(0), "error", wrong.toString());
      notes.keep(true);
      return plan;
    }
  }

  /** Notes that scans by Delta's second connector are left: internal classes alone tell their files and version. */
  private static void noteSecondConnector(Notes notes, LogicalPlan plan) {
    notes.begin(plan);
    int[] place = {0};
    plan.foreachWithSubqueries(
        node -> {
          if (node instanceof DataSourceV2ScanRelation scan
              && scan.relation().table().getClass().getName().startsWith("io.delta.")
              && scan.getTagValue(SEEN).isEmpty()) {
            scan.setTagValue(SEEN, true);
            Map<String, Object> note = notes.scan(place[0]++);
            note.put("table", scan.relation().table().name());
            Notes.declined(note, "not-served", "by Delta's second connector; spark.databricks.delta.v2.enableMode=AUTO is");
          }
          return BoxedUnit.UNIT;
        });
  }

  /** Tells whether a node is a command, or reads what Delta reads of its log. */
  private static boolean isOfNoStatement(LogicalPlan node) {
    return node instanceof Command
        || node instanceof CommandResult
        || node instanceof LogicalRDD
        || node instanceof LogicalRelation relation && Scan.location(relation) instanceof DeltaLogFileIndex;
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

  /** Puts what the index answers in the place of scans that have not been looked at. */
  private static final class Scans {
    private final Notes notes;
    private final Guards guards;
    private final boolean joins;

    Scans(Notes notes, LogicalPlan query) {
      this.notes = notes;
      guards = new Guards(query);
      joins = query.exists(Join.class::isInstance);
    }

    private LogicalPlan accelerated(LogicalPlan plan, Scan scan, int place) {
      scan.relation().setTagValue(SEEN, true);
      Map<String, Object> note = notes.scan(place);
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
        return guards.namesFiles() ? files(plan, scan, question, -1) : rowsOrFiles(plan, scan, question, joins);
      } catch (Declined declined) {
        Notes.declined(note, declined.reason, declined.detail);
        boolean isLeft = guards.dependsOnOrder() || declined.reason.equals("not-served");
        return isLeft ? plan : reading(plan, scan, null, -1, note);
      }
    }
  }

  /** Returns the scan below a plan that has not been looked at, or null. */
  private static Scan newBelow(LogicalPlan plan) {
    Scan scan = Scan.below(plan);
    return scan == null || scan.relation().getTagValue(SEEN).isDefined() ? null : scan;
  }

  /** Returns a plan of few rows, or one that reads fewer files or whose rows are counted. */
  private static LogicalPlan rowsOrFiles(LogicalPlan plan, Scan scan, Question question, boolean joins)
      throws Declined {
    Declined noRows;
    try {
      return Served.rows(plan, scan, question);
    } catch (Declined declined) {
      question.note.put("no_rows", declined.reason);
      noRows = declined;
    }
    if (Helper.isAbsent(noRows)) {
      throw noRows;
    }
    long bytes = question.bytes(noRows);
    try {
      return files(plan, scan, question, bytes);
    } catch (Declined noFiles) {
      // Few rows that lie in all files are left for what they would take.
      Declined first = OF_COSTS.contains(noRows.reason) ? noRows : noFiles;
      Declined other = first == noRows ? noFiles : noRows;
      String detail = first.detail + "; " + other.getMessage();
      if (!joins || bytes < 0 || bytes >= scan.bytes()) {
        throw new Declined(first.reason, detail);
      }
      question.note.put("rows", noRows.rows);
      Notes.declined(question.note, first.reason, detail + "; Spark's optimizer is told of " + noRows.rows + " rows");
      return reading(plan, scan, null, bytes, question.note);
    }
  }

  /** Returns a plan that reads fewer files. */
  private static LogicalPlan files(LogicalPlan plan, Scan scan, Question question, long bytes) throws Declined {
    Set<String> named = question.files();
    int before = scan.planned().preparedScan().files().size();
    int after = new IndexedFiles(scan.planned(), named, bytes, List.of()).listed().size();
    if (after == before) {
      throw new Declined("keeps-all", after + " files");
    }
    question.note.put("files", after);
    question.note.put("of", before);
    Notes.served(question.note, "files");
    return reading(plan, scan, named, bytes, question.note);
  }

  /** Returns a plan that reads some files, or all, and filters their rows by the keys of joins as far as that pays. */
  private static LogicalPlan reading(
      LogicalPlan plan, Scan scan, Set<String> named, long bytes, Map<String, Object> note) {
    List<KeySet> keys = JoinKeys.filters(scan.implied());
    if (named == null && bytes < 0 && keys.isEmpty()) {
      return plan;
    }
    LogicalPlan reading = DeltaTableUtils.replaceFileIndex(plan, new IndexedFiles(scan.planned(), named, bytes, keys));
    if (keys.isEmpty()) {
      return reading;
    }
    note.put("keys", keys.stream().mapToInt(KeySet::size).sum());
    Expression filter = keys.stream().map(Expression.class::cast).reduce(And::new).orElseThrow();
    return reading.transformUp(
        new NodeChange<LogicalPlan>(node -> node instanceof LogicalRelation ? new Filter(filter, node) : null));
  }
}
