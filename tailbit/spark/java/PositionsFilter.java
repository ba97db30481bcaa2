package io.tailbit.spark;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.nio.ByteBuffer;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Parquet's filter by positions, defined by the class loader that Parquet is of: it alone makes filters.
 *
 * `opened`: where the positions of the file stand that a thread opens.
 */
record PositionsFilter(FilterPredicate predicate, ThreadLocal<ByteBuffer> opened) {
  private static final Logger LOG = LoggerFactory.getLogger(PositionsFilter.class);
  private static final String NAME = "org.apache.parquet.hadoop.PositionsPredicate";
  private static final PositionsFilter FITTING = fitting();

  /** Returns the filter, or null where this release of Parquet lacks what it reads. */
  static PositionsFilter get() {
    return FITTING;
  }

  @SuppressWarnings("unchecked")
  private static PositionsFilter fitting() {
    try {
      Class<?> found = found();
      if (!(Boolean) found.getMethod("fits").invoke(null)) {
        LOG.warn("tailbit reads no rows by position: this release of Parquet has other members");
        return null;
      }
      FilterPredicate predicate = (FilterPredicate) found.getConstructor().newInstance();
      return new PositionsFilter(predicate, (ThreadLocal<ByteBuffer>) found.getField("OPENED").get(null));
    } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError otherRelease) {
      LOG.warn("tailbit reads no rows by position in this release of Spark", otherRelease);
      return null;
    }
  }

  private static Class<?> found() throws ReflectiveOperationException, IOException {
    ClassLoader parquet = ParquetFileReader.class.getClassLoader();
    try {
      return Class.forName(NAME, true, parquet);
    } catch (ClassNotFoundException notDefined) {
      try (InputStream code = PositionsFilter.class.getResourceAsStream("/" + NAME.replace('.', '/') + ".class")) {
        return MethodHandles.privateLookupIn(ParquetFileReader.class, MethodHandles.lookup())
            .defineClass(code.readAllBytes());
      } catch (LinkageError definedMeanwhile) {
        return Class.forName(NAME, true, parquet);
      }
    }
  }
}
