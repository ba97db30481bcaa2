package io.tailbit.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
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
    UnsafeRowWriter writer = new UnsafeRowWriter(types.size());
    try (var allocator = new RootAllocator();
        var reader = new ArrowStreamReader(new ByteArrayInputStream(data), allocator)) {
      while (reader.loadNextBatch()) {
        var vectors = reader.getVectorSchemaRoot().getFieldVectors();
        if (vectors.size() != types.size()) {
          throw new Declined("malformed", vectors.size() + " columns");
        }
        List<ArrowColumnVector> columns = vectors.stream().map(ArrowColumnVector::new).toList();
        for (int row = 0; row < reader.getVectorSchemaRoot().getRowCount(); row++) {
          writer.reset();
          writer.zeroOutNullBytes();
          for (int place = 0; place < columns.size(); place++) {
            write(writer, place, columns.get(place), row, types.get(place));
          }
          rows.add(writer.getRow().copy());
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

  /** Writes a value as Spark holds it; the column's type must be Spark's own, down to the digits of decimals. */
  private static void write(UnsafeRowWriter writer, int place, ArrowColumnVector column, int row, DataType type)
      throws Declined {
    boolean isTime = type instanceof TimestampType || type instanceof TimestampNTZType;
    if (isTime ? !column.dataType().getClass().equals(type.getClass()) : !column.dataType().equals(type)) {
      throw new Declined("malformed", column.dataType() + " in place of " + type);
    }
    if (column.isNullAt(row)) {
      writer.setNullAt(place);
    } else if (type instanceof BooleanType) {
      writer.write(place, column.getBoolean(row));
    } else if (type instanceof ByteType) {
      writer.write(place, column.getByte(row));
    } else if (type instanceof ShortType) {
      writer.write(place, column.getShort(row));
    } else if (type instanceof IntegerType) {
      writer.write(place, column.getInt(row));
    } else if (type instanceof DateType) {
      writer.write(place, (int) checked(column.getInt(row), Calendar.FIRST_DAY, "a day"));
    } else if (type instanceof LongType) {
      writer.write(place, column.getLong(row));
    } else if (isTime) {
      writer.write(place, checked(column.getLong(row), Calendar.FIRST_MICROSECOND, "a time"));
    } else if (type instanceof FloatType) {
      writer.write(place, column.getFloat(row));
    } else if (type instanceof DoubleType) {
      writer.write(place, column.getDouble(row));
    } else if (type instanceof BinaryType) {
      writer.write(place, column.getBinary(row));
    } else if (type instanceof DecimalType decimal) {
      int digits = decimal.precision();
      writer.write(place, column.getDecimal(row, digits, decimal.scale()), digits, decimal.scale());
    } else if (DataTypes.StringType.equals(type)) {
      writer.write(place, column.getUTF8String(row));
    } else {
      throw new Declined("not-in-words", "type " + type.simpleString());
    }
  }

  private static long checked(long value, long first, String kind) throws Declined {
    if (value < first) {
      throw new Declined("old-calendar", kind + " of " + value);
    }
    return value;
  }
}
