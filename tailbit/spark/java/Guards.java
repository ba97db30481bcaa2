package io.tailbit.spark;

import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InputFileName;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** What a query may read that is another value where fewer files are read; looked for once, when it is first asked. */
final class Guards {
  private final LogicalPlan query;
  private Boolean dependsOnOrder;
  private Boolean namesFiles;

  Guards(LogicalPlan query) {
    this.query = query;
  }

  /**
   * Tells whether the query evaluates what depends on the order or the place of rows: a seeded rand() gives each row
   * another number where other rows are read before it, a seeded sample takes others, and files are split otherwise
   * where fewer are read.
   */
  boolean dependsOnOrder() {
    dependsOnOrder = dependsOnOrder == null ? dependsOnOrder(query) : dependsOnOrder;
    return dependsOnOrder;
  }

  /** Tells whether the query names the files of rows: of rows without a scan Spark says none. */
  boolean namesFiles() {
    namesFiles = namesFiles == null ? namesFiles(query) : namesFiles;
    return namesFiles;
  }

  private static boolean dependsOnOrder(LogicalPlan plan) {
    boolean[] depends = {showsMetadata(plan)};
    plan.foreachWithSubqueries(
        node -> {
          depends[0] |= node instanceof Sample;
          depends[0] |= node instanceof Union && node.children().exists(Guards::showsMetadata);
          if (!(node instanceof LeafNode)) {
            for (Expression expression : CollectionConverters.asJava(node.expressions())) {
              depends[0] |= !expression.deterministic() && expression.exists(Guards::isOfOrder);
              depends[0] |= readsSplit(expression);
            }
          }
          return BoxedUnit.UNIT;
        });
    return depends[0];
  }

  private static boolean namesFiles(LogicalPlan plan) {
    boolean[] names = {false};
    plan.foreachWithSubqueries(
        node -> {
          names[0] |= node.expressions().exists(expression -> expression.exists(part -> part instanceof InputFileName));
          return BoxedUnit.UNIT;
        });
    return names[0];
  }

  private static boolean isOfOrder(Expression expression) {
    return !expression.deterministic()
        && !(expression instanceof InputFileName)
        && expression.children().forall(Expression::deterministic);
  }

  /**
   * Tells whether an expression may read where the split of a row begins or ends. A metadata struct as a whole may
   * be read so later, by another name: only the fields that are told by the file are known not to.
   */
  private static boolean readsSplit(Expression expression) {
    if (expression instanceof GetStructField field && isMetadata(field.child())) {
      return field.extractFieldName().startsWith("file_block_");
    }
    return isMetadata(expression) || expression.children().exists(Guards::readsSplit);
  }

  private static boolean showsMetadata(LogicalPlan plan) {
    return plan.output().exists(Guards::isMetadata);
  }

  private static boolean isMetadata(Expression expression) {
    return expression instanceof AttributeReference column
        && column.metadata().contains("__metadata_col")
        && column.dataType() instanceof StructType;
  }
}
