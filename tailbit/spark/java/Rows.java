package io.tailbit.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
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
 * Few rows in place of a scan: all rows where the filters in words are TRUE, read while the query is planned.
 *
 * Every filter stays over them. Filters of floating point are left to Spark, whose own pushdown loses NaN and -0.0.
 */
final class Rows {
  private Rows() {}

  /** Returns the plan of a scan over the rows that the index answers. */
  static LogicalPlan served(Scan scan, Question question) throws Declined {
    if (!Settings.serves("rows")) {
      throw new Declined("not-served");
    }
    checkFilters(scan);
    List<Attribute> read = read(scan);
    List<String> names = new ArrayList<>();
    for (Attribute column : read) {
      checkType(column.dataType());
      names.add(question.shown((AttributeReference) column));
    }
    if (names.isEmpty()) {
      throw new Declined("no-columns");
    }
    List<DataType> types = read.stream().map(Expression::dataType).toList();
    int most = Settings.mostRows();
    List<InternalRow> rows = Values.rows(question.rows(names, most), types, most);
    question.note.put("rows", rows.size());
    Notes.served(question.note, "rows");
    LogicalPlan plan = IndexedAnswer.relation(scan, read, rows);
    for (Expression condition : scan.filters().stream().reduce(And::new).stream().toList()) {
      plan = new Filter(condition, plan);
    }
    return new Project(IndexedAnswer.seq(scan.shown()), plan);
  }

  /** Refuses filters of floating point. */
  private static void checkFilters(Scan scan) throws Declined {
    for (Expression filter : scan.filters()) {
      if (filter.exists(part -> part.dataType() instanceof FloatType || part.dataType() instanceof DoubleType)) {
        throw new Declined("floating-point", "in a filter");
      }
    }
  }

  /** Returns the columns of a scan that its filters and what is shown read. */
  private static List<Attribute> read(Scan scan) {
    List<Expression> parts = new ArrayList<>(scan.filters());
    scan.shown().forEach(shown -> parts.add((Expression) shown));
    List<Attribute> read = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(scan.relation().output())) {
      if (parts.stream().anyMatch(part -> part.references().contains(column))) {
        read.add(column);
      }
    }
    return read;
  }

  private static void checkType(DataType type) throws Declined {
    boolean isPlain =
        type instanceof NumericType || type instanceof BooleanType || type instanceof DateType
            || type instanceof TimestampType || type instanceof TimestampNTZType || type instanceof BinaryType
            || DataTypes.StringType.equals(type);
    if (!isPlain) {
      throw new Declined("not-in-words", "rows with " + type.simpleString());
    }
  }
}
