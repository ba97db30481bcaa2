package io.tailbit.spark;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.DeltaParquetFileFormat;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import scala.runtime.AbstractPartialFunction;

/**
 * The rows of files that a scan reads, where their pages are few: executors read these pages, and no other rows.
 *
 * Every filter stays over the rows, so a position too many costs time and nothing else.
 */
final class Positions {
  private static final int MOST_FILES = 1_000_000;

  private Positions() {}

  /**
   * Returns the columns that a scan reads, by which it is told whether positions are worth their while.
   *
   * Refuses scans that must be read as a whole: with filters of floating point Spark's own pushdown loses NaN and
   * -0.0, and executors that have not the jar cannot read at positions.
   */
  private static List<String> columns(Scan scan, Question question) throws Declined {
    if (!Settings.serves("positions")) {
      throw new Declined("not-served");
    }
    Rows.checkFilters(scan);
    boolean isDelta =
        scan.relation().relation() instanceof HadoopFsRelation files
            && files.fileFormat().getClass() == DeltaParquetFileFormat.class;
    if (!isDelta || PositionsFilter.get() == null) {
      throw new Declined("other-release");
    }
    if (!Settings.readsRowIndex()) {
      throw new Declined("no-row-index");
    }
    if (!executorsHaveJar(scan.relation().relation().sqlContext().sparkSession().sparkContext())) {
      throw new Declined("executors-lack-jar");
    }
    List<String> names = new ArrayList<>();
    for (Attribute column : Rows.read(scan)) {
      try {
        names.add(question.shown((AttributeReference) column));
      } catch (Declined notOfTable) {
        // The place of a row in its file, and the like: they cost no pages.
        continue;
      }
    }
    if (names.isEmpty()) {
      throw new Declined("no-columns");
    }
    return names;
  }

  /**
   * Tells whether every executor loads the jar of this class before it runs a task.
   *
   * The tasks of an isolated session, as those of Connect are, see no jars that were added for all.
   */
  private static boolean executorsHaveJar(SparkContext context) {
    String path = Positions.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    String jar = path.substring(path.lastIndexOf('/') + 1);
    boolean isIsolated =
        JobArtifactSet.getCurrentJobArtifactState().isDefined()
            || Boolean.parseBoolean(SQLConf.get().getConfString("spark.sql.artifact.isolation.enabled", "false"));
    return context.isLocal() && Positions.class.getClassLoader() == SparkContext.class.getClassLoader()
        || context.conf().get("spark.executor.extraClassPath", "").contains(jar)
        || !isIsolated && context.listJars().exists(added -> added.endsWith("/" + jar));
  }

  /** Returns the positions of files by path. */
  static Map<String, ByteBuffer> of(byte[] data) throws Declined {
    Map<String, ByteBuffer> positions = new HashMap<>();
    for (InternalRow row : Values.rows(data, List.of(DataTypes.StringType, DataTypes.BinaryType), MOST_FILES)) {
      positions.put(row.getUTF8String(0).toString(), ByteBuffer.wrap(row.getBinary(1)));
    }
    return positions;
  }

  /** Returns a plan whose scan reads files at the positions that the index tells. */
  static LogicalPlan served(LogicalPlan plan, Scan scan, Question question) throws Declined {
    IndexedRows index = question.positions(columns(scan, question));
    question.note.put("files", index.listed().size());
    question.note.put("of", scan.planned().preparedScan().files().size());
    Notes.served(question.note, "positions");
    return plan.transformDown(new Reading(scan.planned(), index));
  }

  /** Puts an index in the place of Delta's, and the format that takes positions: Delta's own is equal to that. */
  private static final class Reading extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final PreparedDeltaFileIndex planned;
    private final IndexedRows index;

    Reading(PreparedDeltaFileIndex planned, IndexedRows index) {
      this.planned = planned;
      this.index = index;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof LogicalRelation relation && Scan.location(relation) == planned;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A plan, scala.Function1<A, B> otherwise) {
      if (!isDefinedAt(plan)) {
        return otherwise.apply(plan);
      }
      LogicalRelation relation = (LogicalRelation) plan;
      HadoopFsRelation files = (HadoopFsRelation) relation.relation();
      PositionsFormat format = new PositionsFormat((DeltaParquetFileFormat) files.fileFormat());
      HadoopFsRelation positioned =
          files.copy(
              index, files.partitionSchema(), files.dataSchema(), files.bucketSpec(), format, files.options(),
              files.sparkSession());
      return (B)
          relation.copy(
              positioned, relation.output(), relation.catalogTable(), relation.isStreaming(), relation.stream());
    }
  }
}
