package io.tailbit.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/** Opens files on executors: those with positions by a reader that takes these, the others as usual. */
final class PositionedReader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
    implements Serializable {
  private static final long serialVersionUID = 1;

  /** Where a file's metadata holds the positions. */
  static final String KEY = "tailbit.positions";

  private final Function1<PartitionedFile, Iterator<InternalRow>> usual;
  private final Function1<PartitionedFile, Iterator<InternalRow>> positioned;

  PositionedReader(
      Function1<PartitionedFile, Iterator<InternalRow>> usual,
      Function1<PartitionedFile, Iterator<InternalRow>> positioned) {
    this.usual = usual;
    this.positioned = positioned;
  }

  @Override
  public Iterator<InternalRow> apply(PartitionedFile file) {
    Option<Object> positions = file.otherConstantMetadataColumnValues().get(KEY);
    PositionsFilter filter = positions.isDefined() ? PositionsFilter.get() : null;
    if (filter == null) {
      return usual.apply(file);
    }
    filter.opened().set(ByteBuffer.wrap((byte[]) positions.get()));
    try {
      return positioned.apply(file);
    } finally {
      filter.opened().remove();
    }
  }
}
