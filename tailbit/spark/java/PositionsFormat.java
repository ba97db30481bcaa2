package io.tailbit.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.ParquetInputFormat;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.delta.DeltaParquetFileFormat;
import org.apache.spark.sql.delta.actions.Metadata;
import org.apache.spark.sql.delta.actions.Protocol;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Delta's Parquet files, of which those that come with positions are read at these alone.
 *
 * Such a file is read without Spark's pushed filters, in whose place Parquet takes the positions; the others are read
 * as Delta reads them. Row indexes, deletion vectors and splits are what they are without.
 */
final class PositionsFormat extends DeltaParquetFileFormat {
  PositionsFormat(DeltaParquetFileFormat format) {
    super(
        format.protocol(),
        format.metadata(),
        format.nullableRowTrackingConstantFields(),
        format.nullableRowTrackingGeneratedFields(),
        format.optimizationsEnabled(),
        format.tablePath(),
        format.isCDCRead());
  }

  /** Returns a format of the same kind, which Delta asks for to read deletion vectors. */
  @Override
  public DeltaParquetFileFormat copy(
      Protocol protocol,
      Metadata metadata,
      boolean nullableConstants,
      boolean nullableGenerated,
      boolean optimized,
      Option<String> tablePath,
      boolean isCdcRead) {
    return new PositionsFormat(
        super.copy(protocol, metadata, nullableConstants, nullableGenerated, optimized, tablePath, isCdcRead));
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration conf) {
    Configuration positions = new Configuration(conf);
    Function1<PartitionedFile, Iterator<InternalRow>> usual =
        super.buildReaderWithPartitionValues(
            session, dataSchema, partitionSchema, requiredSchema, filters, options, conf);
    PositionsFilter filter = PositionsFilter.get();
    // Else Delta counts the rows that it reads to know their places.
    if (filter == null || !optimizationsEnabled()) {
      return usual;
    }
    ParquetInputFormat.setFilterPredicate(positions, filter.predicate());
    return new PositionedReader(
        usual,
        super.buildReaderWithPartitionValues(
            session, dataSchema, partitionSchema, requiredSchema, Rows.seq(java.util.List.of()), options, positions));
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PositionsFormat && super.equals(other);
  }

  @Override
  public int hashCode() {
    return 31 * super.hashCode() + 1;
  }
}
