package org.apache.parquet.hadoop;

import java.io.Serializable;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.filter2.predicate.Operators.IntColumn;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.column.columnindex.OffsetIndexBuilder;
import org.apache.parquet.internal.filter2.columnindex.ColumnIndexFilter;
import org.apache.parquet.internal.filter2.columnindex.ColumnIndexStore;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;

/**
 * A filter of Parquet that is TRUE for the rows at some positions of a file.
 *
 * Parquet makes the filter of each file from the settings of its reader, by its own class loader: so this class is
 * defined there, and refers to nothing else of this project. It takes the positions from the thread that opens the
 * file. Where it cannot tell which rows a row group has, all of them are read.
 */
public final class PositionsPredicate implements FilterPredicate, Serializable {
  private static final long serialVersionUID = 1;

  /** The positions for which the thread opens a file: a Roaring bitmap in the portable format. */
  public static final ThreadLocal<ByteBuffer> OPENED = new ThreadLocal<>();

  private static final Field STORE = field(ColumnIndexFilter.class, "columnIndexStore", ColumnIndexStore.class);
  private static final Field COLUMNS = field(ColumnIndexFilter.class, "columns", Set.class);
  private static final Field ROW_COUNT = field(ColumnIndexFilter.class, "rowCount", long.class);
  private static final Field READER = field(ColumnIndexStoreImpl.class, "reader", ParquetFileReader.class);

  private transient RoaringBitmap positions;

  /** Tells whether this release of Parquet has what the filter reads. */
  public static boolean fits() {
    return STORE != null && COLUMNS != null && ROW_COUNT != null && READER != null;
  }

  private Object readResolve() {
    PositionsPredicate filter = new PositionsPredicate();
    ByteBuffer opened = OPENED.get();
    if (opened != null && fits()) {
      filter.positions = new RoaringBitmap();
      try {
        filter.positions.deserialize(opened.duplicate());
      } catch (java.io.IOException damaged) {
        filter.positions = null;
      }
    }
    return filter;
  }

  @Override
  @SuppressWarnings("unchecked")
  public <R> R accept(FilterPredicate.Visitor<R> visitor) {
    if (visitor instanceof ColumnIndexFilter filter && positions != null) {
      return (R) ranges(filter);
    }
    return rewrites(visitor) ? (R) this : always().accept(visitor);
  }

  /** Tells whether a visitor of Parquet's own returns a filter in the place of this one. */
  private static boolean rewrites(FilterPredicate.Visitor<?> visitor) {
    String name = visitor.getClass().getName();
    return name.startsWith("org.apache.parquet.filter2.predicate.") && name.endsWith("Rewriter");
  }

  /** Returns a filter that is TRUE for every row: what whoever else looks at this filter learns. */
  private static FilterPredicate always() {
    IntColumn none = FilterApi.intColumn("tailbit.none");
    return FilterApi.or(FilterApi.eq(none, null), FilterApi.notEq(none, null));
  }

  /** Returns the wanted rows of the row group that Parquet asks about. */
  private RowRanges ranges(ColumnIndexFilter filter) {
    try {
      long count = ROW_COUNT.getLong(filter);
      BlockMetaData group = group((ColumnIndexStore) STORE.get(filter), (Set<?>) COLUMNS.get(filter));
      if (group == null || group.getRowCount() != count || group.getRowIndexOffset() < 0) {
        return RowRanges.createSingle(count);
      }
      return ranges(group.getRowIndexOffset(), count);
    } catch (IllegalAccessException closed) {
      throw new IllegalStateException(closed);
    }
  }

  /**
   * Returns the row group whose columns a store has the pages of, or null.
   *
   * The store tells by an exception that a column has no list of pages: Parquet then reads the whole row group.
   */
  private static BlockMetaData group(ColumnIndexStore store, Set<?> columns) throws IllegalAccessException {
    BlockMetaData found = null;
    for (Object column : columns) {
      OffsetIndex pages = store.getOffsetIndex((ColumnPath) column);
      if (pages != null && found == null && pages.getPageCount() > 0 && store instanceof ColumnIndexStoreImpl) {
        found = group((ParquetFileReader) READER.get(store), (ColumnPath) column, pages.getOffset(0));
      }
    }
    return found;
  }

  private static BlockMetaData group(ParquetFileReader reader, ColumnPath column, long offset) {
    for (BlockMetaData group : reader.getRowGroups()) {
      for (ColumnChunkMetaData chunk : group.getColumns()) {
        long start = chunk.getStartingPos();
        if (chunk.getPath().equals(column) && start <= offset && offset < start + chunk.getTotalSize()) {
          return group;
        }
      }
    }
    return null;
  }

  /** Returns the wanted ones of `count` rows from `first` on, as pages of which every second one is wanted. */
  private RowRanges ranges(long first, long count) {
    OffsetIndexBuilder pages = OffsetIndexBuilder.getBuilder();
    PeekableIntIterator wanted = positions.getIntIterator();
    if (first > Integer.MAX_VALUE || first + count > Integer.MAX_VALUE) {
      return RowRanges.createSingle(count);
    }
    wanted.advanceIfNeeded((int) first);
    int number = 0;
    long end = -1;
    while (wanted.hasNext() && wanted.peekNext() < first + count) {
      long row = wanted.next() - first;
      if (row == end) {
        end++;
        continue;
      }
      if (end >= 0) {
        pages.add(0L, 0, end);
      }
      pages.add(0L, 0, row);
      number++;
      end = row + 1;
    }
    if (number == 0) {
      return RowRanges.EMPTY;
    }
    if (end < count) {
      pages.add(0L, 0, end);
    }
    return RowRanges.create(count, IntStream.range(0, number).map(page -> 2 * page).iterator(), pages.build());
  }

  private static Field field(Class<?> owner, String name, Class<?> type) {
    try {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return type.isAssignableFrom(field.getType()) ? field : null;
    } catch (ReflectiveOperationException | RuntimeException otherRelease) {
      return null;
    }
  }

  @Override
  public String toString() {
    return "rows at the positions of the index";
  }
}
