package io.tailbit.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;

/** Rows of an Arrow stream as Spark holds them in a plan. */
final class Values {
  private Values() {}

  /** Returns the rows of a stream whose columns are of some types, at most a number of them. */
  static List<InternalRow> rows(byte[] data, List<DataType> types, int most) throws Declined {
    List<InternalRow> rows = new ArrayList<>();
    try (var allocator = new RootAllocator();
        var reader = new ArrowStreamReader(new ByteArrayInputStream(data), allocator)) {
      while (reader.loadNextBatch()) {
        var vectors = reader.getVectorSchemaRoot().getFieldVectors();
        if (vectors.size() != types.size()) {
          throw new Declined("malformed", vectors.size() + " columns");
        }
        List<ArrowColumnVector> columns = vectors.stream().map(ArrowColumnVector::new).toList();
        for (int row = 0; row < reader.getVectorSchemaRoot().getRowCount(); row++) {
          Object[] values = new Object[types.size()];
          for (int place = 0; place < values.length; place++) {
            values[place] = value(columns.get(place), row, types.get(place));
          }
          rows.add(new GenericInternalRow(values));
        }
      }
    } catch (IOException | RuntimeException wrong) {
      throw new Declined("malformed", wrong.toString());
    }
    if (rows.size() > most) {
      throw new Declined("malformed", rows.size() + " rows");
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
    if (type instanceof IntegerType) {
      return column.getInt(row);
    }
    if (type instanceof DateType) {
      return (int) checked(column.getInt(row), Calendar.FIRST_DAY, "a day");
    }
    if (type instanceof LongType) {
      return column.getLong(row);
    }
    if (isTime) {
      return checked(column.getLong(row), Calendar.FIRST_MICROSECOND, "a time");
    }
    if (type instanceof FloatType) {
      return column.getFloat(row);
    }
    if (type instanceof DoubleType) {
      return column.getDouble(row);
    }
    if (type instanceof BinaryType) {
      return column.getBinary(row);
    }
    if (type instanceof DecimalType decimal) {
      return column.getDecimal(row, decimal.precision(), decimal.scale());
    }
    if (DataTypes.StringType.equals(type)) {
      return column.getUTF8String(row).copy();
    }
    throw new Declined("not-in-words", "type " + type.simpleString());
  }

  private static long checked(long value, long first, String kind) throws Declined {
    if (value < first) {
      throw new Declined("old-calendar", kind + " of " + value);
    }
    return value;
  }
}
