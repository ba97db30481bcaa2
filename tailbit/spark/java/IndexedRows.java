package io.tailbit.spark;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;

/** The files that the index names, each with the positions of the rows in it that may be wanted, where it knows. */
final class IndexedRows extends IndexedFiles {
  private final Map<String, ByteBuffer> positions;

  /** `positions`: Roaring bitmaps in the portable format, by path; a file without is read whole. */
  IndexedRows(PreparedDeltaFileIndex planned, Set<String> named, Map<String, ByteBuffer> positions) {
    super(planned, named);
    this.positions = positions;
  }

  @Override
  @SuppressWarnings("unchecked")
  public FileStatusWithMetadata fileStatusWithMetadataFromAddFile(AddFile file) {
    FileStatusWithMetadata status = super.fileStatusWithMetadataFromAddFile(file);
    String path = relative(file.path());
    ByteBuffer at = path == null ? null : positions.get(path);
    if (at == null) {
      return status;
    }
    return status.copy(status.fileStatus(), status.metadata().updated(PositionedReader.KEY, at.array()));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof IndexedRows that && super.equals(other) && positions.equals(that.positions);
  }

  @Override
  public int hashCode() {
    return super.hashCode() + 1;
  }
}
