package io.tailbit.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Counts of rows, of all or by some columns, from bitmaps: the plan holds the answer in place of the scan. */
final class Counts {
  private static final int MOST_GROUPS = 10_000;

  private Counts() {}

  /** Returns a plan of the rows of an aggregate, or null where it is none of counts or the index does not tell them. */
  static LogicalPlan served(Aggregate aggregate, Scan scan, Question question) {
    List<Expression> by = CollectionConverters.asJava(aggregate.groupingExpressions());
    String mode = by.isEmpty() ? "counts" : "groups";
    if (!Settings.serves(mode) || !by.stream().allMatch(column -> column instanceof AttributeReference)) {
      return null;
    }
    List<Attribute> columns = new ArrayList<>();
    by.forEach(column -> columns.add((AttributeReference) column));
    AttributeReference count =
        new AttributeReference(
            "count", DataTypes.LongType, false, Metadata.empty(), NamedExpression.newExprId(), seq(List.of()));
    columns.add(count);
    List<NamedExpression> results = results(aggregate, columns, count);
    if (results == null) {
      return null;
    }
    try {
      List<InternalRow> rows =
          by.isEmpty()
              ? List.of(new GenericInternalRow(new Object[] {question.count()}))
              : groups(by, question);
      Notes.served(question.note, mode);
      return new Project(seq(results), new LocalRelation(seq(columns), seq(rows), false, Option.empty()));
    } catch (Declined declined) {
      question.note.put("not_counted", declined.reason);
      return null;
    }
  }

  /** Returns the results over grouping columns and the count, or null where one needs anything else. */
  private static List<NamedExpression> results(Aggregate aggregate, List<Attribute> columns, Attribute count) {
    List<NamedExpression> results = new ArrayList<>();
    for (NamedExpression result : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
      Expression told = ((Expression) result).transformDown(new CountsAre(count));
      boolean tellsAll =
          !told.exists(part -> part instanceof AggregateExpression)
              && CollectionConverters.asJava(told.references().toSeq()).stream()
                  .allMatch(read -> columns.stream().anyMatch(column -> column.exprId().equals(read.exprId())));
      if (!tellsAll) {
        return null;
      }
      results.add((NamedExpression) told);
    }
    return results;
  }

  /** Puts the number of rows in the place of each count of all rows. */
  private static final class CountsAre extends AbstractPartialFunction<Expression, Expression> {
    private final Attribute count;

    CountsAre(Attribute count) {
      this.count = count;
    }

    @Override
    public boolean isDefinedAt(Expression expression) {
      return isCount(expression);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends Expression, B> B applyOrElse(A expression, scala.Function1<A, B> otherwise) {
      return isCount(expression) ? (B) count : otherwise.apply(expression);
    }
  }

  private static boolean isCount(Expression expression) {
    return expression instanceof AggregateExpression counted
        && !counted.isDistinct()
        && counted.filter().isEmpty()
        && counted.aggregateFunction() instanceof Count count
        && count.children().forall(child -> child instanceof Literal literal && literal.value() != null);
  }

  private static List<InternalRow> groups(List<Expression> by, Question question) throws Declined {
    List<String> names = new ArrayList<>();
    for (Expression column : by) {
      names.add(question.column(column));
    }
    List<InternalRow> rows = new ArrayList<>();
    byte[] data = question.groups(names, MOST_GROUPS);
    try (var allocator = new RootAllocator();
        var reader = new ArrowStreamReader(new ByteArrayInputStream(data), allocator)) {
      while (reader.loadNextBatch()) {
        var vectors = reader.getVectorSchemaRoot().getFieldVectors();
        if (vectors.size() != by.size() + 1) {
          throw new Declined("malformed", vectors.size() + " columns");
        }
        List<ArrowColumnVector> columns = vectors.stream().map(ArrowColumnVector::new).toList();
        for (int row = 0; row < reader.getVectorSchemaRoot().getRowCount(); row++) {
          Object[] values = new Object[by.size() + 1];
          for (int place = 0; place < by.size(); place++) {
            values[place] = value(columns.get(place), row, by.get(place).dataType());
          }
          values[by.size()] = columns.get(by.size()).getLong(row);
          rows.add(new GenericInternalRow(values));
        }
      }
    } catch (IOException | RuntimeException wrong) {
      throw new Declined("malformed", wrong.toString());
    }
    return rows;
  }

  /** Returns a value as Spark holds it; the column's type must be Spark's own, down to the digits of decimals. */
  private static Object value(ArrowColumnVector column, int row, DataType type) throws Declined {
    boolean isTime = type instanceof TimestampType || type instanceof TimestampNTZType;
    if (isTime ? !column.dataType().getClass().equals(type.getClass()) : !column.dataType().equals(type)) {
      throw new Declined("malformed", column.dataType() + " in place of " + type);
    }
    if (column.isNullAt(row)) {
      return null;
    }
    if (type instanceof BooleanType) {
      return column.getBoolean(row);
    }
    if (type instanceof ByteType) {
      return column.getByte(row);
    }
    if (type instanceof ShortType) {
      return column.getShort(row);
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return column.getInt(row);
    }
    if (type instanceof LongType || isTime) {
      return column.getLong(row);
    }
    if (type instanceof DecimalType decimal) {
      return column.getDecimal(row, decimal.precision(), decimal.scale());
    }
    if (DataTypes.StringType.equals(type)) {
      return column.getUTF8String(row).copy();
    }
    throw new Declined("not-in-words", "type " + type.simpleString());
  }

  private static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toList();
  }
}
