package io.tailbit.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;

/**
 * The scans of the session's last statements as a table, for whoever has SQL alone: `SELECT * FROM tailbit_report()`.
 *
 * Its rows are those at the time of the analysis.
 */
final class Report {
  private static final String NAME = "tailbit_report";
  private static final List<String> NAMES =
      List.of("time", "statement", "table", "version", "served", "files", "of", "reason", "summary", "index");

  private Report() {}

  /** Returns the table function for the extensions of sessions that are made later. */
  static Tuple3<FunctionIdentifier, ExpressionInfo, Function1<Seq<Expression>, LogicalPlan>> function() {
    Function1<Seq<Expression>, LogicalPlan> builder = Report::relation;
    return new Tuple3<>(new FunctionIdentifier(NAME), new ExpressionInfo(Report.class.getName(), NAME), builder);
  }

  /** Adds the table function to a session that runs, unless its extensions did. */
  static void register(SparkSession session) {
    var functions = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().tableFunctionRegistry();
    if (!functions.listFunction().exists(name -> name.funcName().equals(NAME))) {
      functions.createOrReplaceTempFunction(NAME, function()._3(), "scala_udf");
    }
  }

  private static LogicalPlan relation(Seq<Expression> arguments) {
    if (!arguments.isEmpty()) {
      throw new IllegalArgumentException("tailbit_report takes no argument: filter its rows by WHERE");
    }
    List<Attribute> columns = new ArrayList<>();
    NAMES.forEach(name -> columns.add(Counts.column(name, type(name))));
    List<InternalRow> rows = new ArrayList<>();
    for (Notes notes : Notes.ofStatements(SparkSession.active())) {
      notes.scans().forEach(scan -> rows.add(row(notes, scan)));
    }
    return new LocalRelation(IndexedAnswer.seq(columns), IndexedAnswer.seq(rows), false, Option.empty());
  }

  private static DataType type(String name) {
    return switch (name) {
      case "time" -> DataTypes.TimestampType;
      case "version", "files", "of" -> DataTypes.LongType;
      default -> DataTypes.StringType;
    };
  }

  private static InternalRow row(Notes notes, Map<String, Object> scan) {
    Object[] values = new Object[NAMES.size()];
    for (int place = 0; place < values.length; place++) {
      String name = NAMES.get(place);
      Object value = name.equals("time") ? notes.microseconds : name.equals("statement") ? notes.statement : scan.get(name);
      values[place] =
          value instanceof Number number ? (Object) number.longValue()
              : value == null ? null : UTF8String.fromString(value.toString());
    }
    return new GenericInternalRow(values);
  }
}
