package io.tailbit.spark;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * The format of a relation that the index answers: whoever takes it for a relation of files, and opens these, is told
 * that there is nothing to read.
 */
final class AnswerFormat implements FileFormat, DataSourceRegister {
  static final AnswerFormat INSTANCE = new AnswerFormat();

  private AnswerFormat() {}

  @Override
  public String shortName() {
    return "delta";
  }

  @Override
  public Option<StructType> inferSchema(SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
    return Option.empty();
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session, Job job, Map<String, String> options, StructType dataSchema) {
    throw new UnsupportedOperationException("the answer of an index is not written to");
  }
}
