package io.tailbit.spark;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * The scans of a plan and its subqueries, each with its topmost filters and the aggregate over them.
 *
 * Small tables with filters come first: what is answered of them says, by joins, which rows of the others are wanted.
 * So do subqueries whose values are in the filters of others.
 */
final class Targets {
  private static final Comparator<Scan> SELECTIVE_AND_SMALL_FIRST =
      Comparator.comparing((Scan scan) -> scan.filters().stream().anyMatch(filter -> filter.exists(ScalarSubquery.class::isInstance)))
          .thenComparing(scan -> scan.filters().stream().allMatch(filter -> filter instanceof IsNotNull))
          .thenComparing(Scan::bytes);

  private Targets() {}

  /**
   * What is put in the place of a scan, and of what filters and aggregates it; the same plan leaves it as it is.
   * `place`: of the scan in the plan, among those of its kind.
   */
  interface Change {
    LogicalPlan of(LogicalPlan plan, Scan scan, int place);
  }

  /** What a scan is below some filters and projections, or null. */
  interface Kind {
    Scan below(LogicalPlan plan);
  }

  /** Returns a plan in which the scans of a kind are changed, one after the other. */
  static LogicalPlan changed(LogicalPlan query, Kind kind, Change change) {
    LogicalPlan changed = query;
    List<Scan> scans = relations(query, kind).stream().map(relation -> scanOf(query, relation, kind)).toList();
    List<Integer> smallFirst = new ArrayList<>(IntStream.range(0, scans.size()).boxed().toList());
    smallFirst.sort(Comparator.comparing(scans::get, SELECTIVE_AND_SMALL_FIRST));
    for (int place : smallFirst) {
      LogicalRelation relation = scans.get(place).relation();
      List<LogicalPlan> path = path(changed, relation);
      LogicalPlan top = top(path, relation, kind);
      if (top != null) {
        Scan scan = below(top, kind);
        boolean isOnce = occurrences(changed, relation) == 1;
        LogicalPlan answer = change.of(top, isOnce ? scan.above(path) : scan, place);
        var replaced = new NodeChange<LogicalPlan>(node -> node == top ? answer : null);
        changed = answer == top ? changed : changed.transformDownWithSubqueries(replaced);
      }
    }
    return changed;
  }

  /** Returns the scan of a relation of a plan, with its filters. */
  private static Scan scanOf(LogicalPlan query, LogicalRelation relation, Kind kind) {
    LogicalPlan top = top(path(query, relation), relation, kind);
    return below(top == null ? relation : top, kind);
  }

  /** Returns the scan below a node that filters or aggregates it, or null. */
  private static Scan below(LogicalPlan node, Kind kind) {
    return kind.below(scanned(node));
  }

  /** Returns what a node aggregates, perhaps several times as ROLLUP and CUBE do, or the node itself. */
  static LogicalPlan scanned(LogicalPlan node) {
    LogicalPlan below = node instanceof Aggregate aggregate ? aggregate.child() : node;
    return below != node && below instanceof Expand expand ? expand.child() : below;
  }

  /** Returns the scanned relations of a plan, each once, in the order of the plan. */
  private static List<LogicalRelation> relations(LogicalPlan query, Kind kind) {
    List<LogicalRelation> relations = new ArrayList<>();
    query.foreachWithSubqueries(
        node -> {
          boolean isNew = node instanceof LogicalRelation && relations.stream().noneMatch(seen -> seen == node);
          if (isNew && kind.below(node) != null) {
            relations.add((LogicalRelation) node);
          }
          return BoxedUnit.UNIT;
        });
    return relations;
  }

  /** Returns the nodes from the root of a plan, or of a subquery of it, to a relation; empty where there is none. */
  private static List<LogicalPlan> path(LogicalPlan plan, LogicalRelation relation) {
    List<LogicalPlan> path = new ArrayList<>();
    if (plan == relation) {
      path.add(plan);
      return path;
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      List<LogicalPlan> below = path(child, relation);
      if (!below.isEmpty()) {
        path.add(plan);
        path.addAll(below);
        return path;
      }
    }
    for (LogicalPlan subquery : CollectionConverters.asJava(plan.subqueries())) {
      List<LogicalPlan> below = path(subquery, relation);
      if (!below.isEmpty()) {
        return below;
      }
    }
    return path;
  }

  /** Returns the topmost node of a path that filters or aggregates a relation alone, or null. */
  private static LogicalPlan top(List<LogicalPlan> path, LogicalRelation relation, Kind kind) {
    for (LogicalPlan node : path) {
      Scan scan = below(node, kind);
      if (scan != null && scan.relation() == relation) {
        return node;
      }
    }
    return null;
  }

  private static int occurrences(LogicalPlan plan, LogicalRelation relation) {
    int[] number = {0};
    plan.foreachWithSubqueries(
        node -> {
          number[0] += node == relation ? 1 : 0;
          return BoxedUnit.UNIT;
        });
    return number[0];
  }
}
