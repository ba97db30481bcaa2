package io.tailbit.spark;

import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the index answers in place of a scan, as the files of the scanned table: few rows of it, or counts.
 *
 * To whoever looks at the plan it is a relation of that table, at its version and with its files, so that lineage and
 * `inputFiles()` name them; files are listed when they are asked for. Spark's optimizer sees no rows: what is above
 * them is evaluated when the query runs (`IndexedAnswerExec`).
 */
final class IndexedAnswer extends TahoeFileIndexWithSnapshotDescriptor {
  final List<InternalRow> rows;
  private final TahoeFileIndex scanned;
  private final long bytes;

  private IndexedAnswer(Scan scan, List<InternalRow> rows, long bytes) {
    super(scan.files().spark(), scan.files().deltaLog(), scan.files().path(), scan.at());
    this.scanned = scan.files();
    this.rows = rows;
    this.bytes = bytes;
  }

  /** Returns the relation of a scanned table that has some rows of some columns. */
  static LogicalPlan relation(Scan scan, List<Attribute> columns, List<InternalRow> rows) {
    Seq<AttributeReference> output = seq(columns.stream().map(column -> (AttributeReference) column).toList());
    IndexedAnswer answer = new IndexedAnswer(scan, rows, width(output) * rows.size());
    HadoopFsRelation files = (HadoopFsRelation) scan.relation().relation();
    // No column of it is a partition's, by which Spark would prune files once more.
    HadoopFsRelation table =
        files.copy(
            answer, new StructType(), files.schema(), Option.empty(), AnswerFormat.INSTANCE, files.options(),
            files.sparkSession());
    return new LogicalRelation(
        table, output, scan.relation().catalogTable().map(IndexedAnswer::withoutStatistics), false, Option.empty());
  }

  /** Returns the answer of which a plan is a relation, or null. */
  static IndexedAnswer of(LogicalPlan plan) {
    return plan instanceof LogicalRelation relation && Scan.location(relation) instanceof IndexedAnswer answer
        ? answer
        : null;
  }

  /** Returns how many bytes Spark takes a row of some columns to have. */
  @SuppressWarnings("unchecked")
  static long width(Seq<? extends Attribute> columns) {
    return EstimationUtils.getSizePerRow((Seq<Attribute>) columns, AttributeMap$.MODULE$.empty()).toLong();
  }

  /** Returns a table of which the catalog knows no size: that of the answer counts. Its fields differ by release. */
  private static CatalogTable withoutStatistics(CatalogTable table) {
    if (table.stats().isEmpty()) {
      return table;
    }
    try {
      Object[] fields = new Object[table.productArity()];
      for (int place = 0; place < fields.length; place++) {
        boolean isStatistics = table.productElementName(place).equals("stats");
        fields[place] = isStatistics ? Option.empty() : table.productElement(place);
      }
      return (CatalogTable) CatalogTable.class.getConstructors()[0].newInstance(fields);
    } catch (ReflectiveOperationException otherRelease) {
      throw new LinkageError("CatalogTable", otherRelease);
    }
  }

  static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toList();
  }

  @Override
  public Seq<AddFile> matchingFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return scanned.matchingFiles(partitionFilters, dataFilters);
  }

  @Override
  public String[] inputFiles() {
    return scanned.inputFiles();
  }

  @Override
  public void refresh() {}

  @Override
  public long sizeInBytes() {
    return bytes;
  }

  /** Two are equal where they answer the same at the same version of a table. */
  @Override
  public boolean equals(Object other) {
    return other instanceof IndexedAnswer that
        && version() == that.version()
        && metadata().id().equals(that.metadata().id())
        && rows.equals(that.rows);
  }

  @Override
  public int hashCode() {
    return Objects.hash(metadata().id(), version(), rows.size());
  }
}
