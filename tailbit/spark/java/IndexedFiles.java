package io.tailbit.spark;

import java.net.URI;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of a Delta scan that the index names, at the version that Delta has pinned.
 *
 * Every question is asked of Delta's own file index, and what Delta lists is cut down to the named files. Delta's
 * partition pruning and statistics hold as before, and so does what it says of deletion vectors. Spark's optimizer is
 * told the bytes of the rows that the filters leave, where their number is known.
 */
final class IndexedFiles extends TahoeFileIndexWithSnapshotDescriptor {
  private final PreparedDeltaFileIndex planned;
  private final Set<String> named;
  private final long bytes;
  private final List<KeySet> keys;

  /**
   * `named`: null for all files. `bytes`: of the rows that the filters leave; -1 where that is not known. `keys`:
   * filters that Delta has not listed its files by.
   */
  IndexedFiles(PreparedDeltaFileIndex planned, Set<String> named, long bytes, List<KeySet> keys) {
    super(planned.spark(), planned.deltaLog(), planned.path(), planned.preparedScan().scannedSnapshot());
    this.planned = planned;
    this.named = named;
    this.bytes = bytes;
    this.keys = keys;
  }

  @Override
  public Seq<AddFile> matchingFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return kept(planned.matchingFiles(asListed(partitionFilters), asListed(dataFilters)));
  }

  /** Returns the filters that Delta has listed its files by, so that it need not list them again. */
  @SuppressWarnings("unchecked")
  private Seq<Expression> asListed(Seq<Expression> filters) {
    return (Seq<Expression>) filters.filterNot(filter -> keys.stream().anyMatch(filter::semanticEquals));
  }

  /** Returns the files of Delta's list that are kept. */
  Seq<AddFile> listed() {
    return kept(planned.preparedScan().files());
  }

  @Override
  public String[] inputFiles() {
    return CollectionConverters.asJava(listed()).stream()
        .map(file -> file.absolutePath(planned.deltaLog()).toString())
        .toArray(String[]::new);
  }

  @Override
  public void refresh() {
    planned.refresh();
  }

  @Override
  public long sizeInBytes() {
    long listed = CollectionConverters.asJava(listed()).stream().mapToLong(AddFile::size).sum();
    return bytes < 0 ? listed : Math.min(bytes, listed);
  }

  @SuppressWarnings("unchecked")
  private Seq<AddFile> kept(Seq<AddFile> files) {
    return named == null ? files : (Seq<AddFile>) files.filter(file -> isNamed(file.path()));
  }

  /** Tells whether a path of the log, which is a URI, is named; a file outside of the table always is. */
  private boolean isNamed(String path) {
    String relative = relative(path);
    return relative == null || named.contains(relative);
  }

  /** Returns a path of the log, which is a URI, as it is below the table; null where it is elsewhere or more than a path. */
  private static String relative(String path) {
    try {
      URI uri = URI.create(path);
      boolean isElsewhere = uri.isAbsolute() || uri.getPath().startsWith("/");
      return isElsewhere || uri.getRawQuery() != null || uri.getRawFragment() != null ? null : uri.getPath();
    } catch (IllegalArgumentException notAUri) {
      return null;
    }
  }

  /** Two are equal where they list the same for any question. Delta's own index looks at less. */
  @Override
  public boolean equals(Object other) {
    return other instanceof IndexedFiles that
        && Objects.equals(named, that.named)
        && bytes == that.bytes
        && keys.equals(that.keys)
        && version() == that.version()
        && metadata().id().equals(that.metadata().id())
        && planned.equals(that.planned);
  }

  @Override
  public int hashCode() {
    return Objects.hash(planned, named, bytes);
  }
}
