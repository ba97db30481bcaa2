package tailbit;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.URLDecoder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.delta.ColumnWithDefaultExprUtils;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.DeltaTableUtils;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.RowTracking;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.delta.commands.DeletionVectorUtils$;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore$;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStoreUtils;
import org.apache.spark.sql.delta.util.PathWithFileSystem;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Deletes the rows at given positions of a Delta table and appends rows, in one commit of a transaction of Delta's own.
 *
 * The transaction reads the version at which the positions were found. Delta's conflict detection protects the rows as
 * it does in a DELETE: this commit fails where another one, made in between, changed one of the files, or added rows
 * that may fulfil the condition.
 */
public class RowChanges {
  /** Begins a path whose log spells it in an unusual way; behind it is the URI of the log. */
  private static final String SPELLED = "uri:";

  private SparkSession spark;
  private OptimisticTransaction transaction;
  private Snapshot snapshot;
  private final List actions = new ArrayList();
  private final long began = System.currentTimeMillis();
  private long deletedRows;
  private long removedFiles;
  private long removedBytes;
  private long addedFiles;
  private long addedBytes;
  private long addedVectors;
  private long updatedVectors;
  private long removedVectors;

  /** Begins a transaction on a table; name: as in SQL, of a catalog or delta.`path`. */
  public RowChanges begin(SparkSession session, String name) throws Exception {
    // Delta asks the thread for its session, and a new thread of Python has none.
    SparkSession.setActiveSession(session);
    List parts = parts(session, name);
    spark = session;
    DeltaTableV2 table = parts.size() < 3
        ? DeltaTableV2.apply(session, session.sessionState().sqlParser().parseTableIdentifier(name), "DELETE")
        : ofCatalog(session, parts, name);
    transaction = table.startTransaction(Option.empty());
    snapshot = transaction.snapshot();
    DeltaLog.assertRemovable(snapshot);
    return this;
  }

  private static List parts(SparkSession session, String name) throws ParseException {
    return new ArrayList(CollectionConverters.asJava(session.sessionState().sqlParser().parseMultipartIdentifier(name)));
  }

  /** Returns the table of a name whose first part is a catalog. */
  private static DeltaTableV2 ofCatalog(SparkSession session, List parts, String name) throws Exception {
    Identifier table = new CatalogV2Implicits.MultipartIdentifierHelper(seq(parts.subList(1, parts.size()))).asIdentifier();
    CatalogPlugin catalog = session.sessionState().catalogManager().catalog((String) parts.get(0));
    Object found = catalog instanceof TableCatalog ? ((TableCatalog) catalog).loadTable(table) : null;
    if (!(found instanceof DeltaTableV2)) {
      throw new IllegalArgumentException(name + " is no Delta table");
    }
    return (DeltaTableV2) found;
  }

  /** Returns whether a name is that of a view, be it a temporary one. */
  public boolean isView(SparkSession session, String name) throws ParseException {
    List parts = parts(session, name);
    if (parts.size() > 2 && !"spark_catalog".equalsIgnoreCase((String) parts.get(0))) {
      return false;
    }
    return session.sessionState().catalog().isView(seq(parts.size() > 2 ? parts.subList(1, parts.size()) : parts));
  }

  /** Returns the location of the table as a URI. */
  public String location() {
    return snapshot.deltaLog().dataPath().toUri().toString();
  }

  /** Returns for how many ms VACUUM keeps a file that the table does not name any more. */
  public long retention() {
    return DeltaLog.tombstoneRetentionMillis(snapshot.metadata());
  }

  public long version() {
    return snapshot.version();
  }

  /** Returns the last version of an application that was committed to the table, or -1. */
  public long lastOf(String application) {
    return transaction.txnVersion(application);
  }

  /** Returns why deletion vectors of ours would be no DELETE of this table, or null. */
  public String obstacle() {
    if (!DeletionVectorUtils$.MODULE$.deletionVectorsWritable(snapshot.protocol(), snapshot.metadata())) {
      return "the table has no deletion vectors (delta.enableDeletionVectors)";
    }
    if ("true".equals(property("delta.enableChangeDataFeed"))) {
      return "the table has a change data feed (delta.enableChangeDataFeed)";
    }
    if (RowTracking.isEnabled(snapshot.protocol(), snapshot.metadata())) {
      return "the table has row tracking (delta.enableRowTracking)";
    }
    return null;
  }

  /** Returns the first setting of the session, by name, that begins so; null if none does. */
  public String settingThatBegins(String prefix) {
    Iterator names = CollectionConverters.asJava(spark.conf().getAll()).keySet().iterator();
    String first = null;
    while (names.hasNext()) {
      String name = (String) names.next();
      if (name.startsWith(prefix) && (first == null || name.compareTo(first) < 0)) {
        first = name;
      }
    }
    return first;
  }

  /** Returns why the condition of a filtered frame may mean something else to the index than to this session, or null. */
  public String obstacle(Dataset rows) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    return plan instanceof Filter
        ? obstacle(((Filter) plan).condition())
        : "the condition is more than a filter to Spark";
  }

  private static String obstacle(Expression part) {
    if (part instanceof PlanExpression) {
      return "the condition has a subquery";
    }
    if (part instanceof UserDefinedExpression || part instanceof VariableReference) {
      return "the condition has a function or variable of the session: " + part.sql();
    }
    Iterator children = CollectionConverters.asJava(part.children()).iterator();
    while (children.hasNext()) {
      String found = obstacle((Expression) children.next());
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private String property(String name) {
    Option value = snapshot.metadata().configuration().get(name);
    return value.isEmpty() ? null : (String) value.get();
  }

  /**
   * Deletes rows of some files; false, and nothing is changed, where the log does not say how many rows one of them has.
   *
   * places: for each file the path (decoded, or SPELLED and the log's URI), the positions as a serialized RoaringBitmapArray, and the
   * identity of its deletion vector with the positions that this hides, or with none if they are not known; each behind
   * its length in bytes (4 bytes, big endian).
   */
  public boolean delete(byte[] places) throws IOException {
    Map bitmaps = new HashMap();
    Map hidden = new HashMap();
    DataInputStream input = new DataInputStream(new ByteArrayInputStream(places));
    while (input.available() > 0) {
      String path = new String(next(input), "UTF-8");
      bitmaps.put(path, RoaringBitmapArray.readFrom(next(input)));
      hidden.put(new String(next(input), "UTF-8"), RoaringBitmapArray.readFrom(next(input)));
    }
    Map files = files(bitmaps);
    Iterator added = files.values().iterator();
    while (added.hasNext()) {
      if (((AddFile) added.next()).numPhysicalRecords().isEmpty()) {
        return false;
      }
    }
    transaction.trackFilesRead(seq(new ArrayList(files.values())));
    mark(files, bitmaps, hidden);
    return true;
  }

  /** Returns the names of the columns that Delta's writer computes where rows lack them. */
  public List generated() {
    List names = new ArrayList();
    StructField[] fields = snapshot.metadata().schema().fields();
    for (int at = 0; at < fields.length; at++) {
      if (fields[at].metadata().contains("delta.generationExpression")) {
        names.add(fields[at].name());
      }
    }
    return names;
  }

  /** Returns why rows of a source may be other rows once Delta's own MERGE has written them, or null. */
  public String obstacleToAppend(Dataset source) {
    StructField[] fields = snapshot.metadata().schema().fields();
    for (int at = 0; at < fields.length; at++) {
      String column = "column " + fields[at].name();
      if (ColumnWithDefaultExprUtils.isIdentityColumn(fields[at])) {
        return column + " is an identity column";
      }
      if (CharVarcharUtils.getRawTypeString(fields[at].metadata()).isDefined()) {
        return column + " is a CHAR or VARCHAR";
      }
      DataType given = typeOf(source.schema(), fields[at].name());
      if (given == null) {
        continue;
      }
      DataType kept = fields[at].dataType();
      boolean isPlain = (given instanceof AtomicType || given instanceof NullType) && kept instanceof AtomicType;
      if (!(isPlain && Cast.canANSIStoreAssign(given, kept)) && !DataTypeUtils.sameType(given, kept)) {
        return column + " of the source is " + given.simpleString() + ", and that of the table " + kept.simpleString();
      }
    }
    return null;
  }

  /** Returns the type of a column, or null: a column that the source lacks is a generated one. */
  private static DataType typeOf(StructType schema, String name) {
    StructField[] fields = schema.fields();
    for (int at = 0; at < fields.length; at++) {
      if (fields[at].name().equalsIgnoreCase(name)) {
        return fields[at].dataType();
      }
    }
    return null;
  }

  /** Writes rows, which have the columns of the table, as new files by Delta's own writer. */
  public void append(Dataset rows) {
    Iterator written = CollectionConverters.asJava(transaction.writeFiles(rows)).iterator();
    while (written.hasNext()) {
      Object file = written.next();
      actions.add(file);
      if (file instanceof AddFile) {
        addedFiles += 1;
        addedBytes += ((AddFile) file).size();
      }
    }
  }

  private static byte[] next(DataInputStream input) throws IOException {
    byte[] bytes = new byte[input.readInt()];
    input.readFully(bytes);
    return bytes;
  }

  /** Returns the files of some paths, each with all of its statistics. */
  private Map files(Map wanted) throws IOException {
    Set texts = new HashSet();
    Iterator paths = wanted.keySet().iterator();
    while (paths.hasNext()) {
      String text = (String) paths.next();
      texts.add(text.startsWith(SPELLED) ? decoded(text.substring(SPELLED.length())) : text);
    }
    Column named = functions.expr("url_decode(replace(path, '+', '%2B'))").isin(texts.toArray());
    Iterator added = snapshot.allFiles().where(named).collectAsList().iterator();
    Map files = new HashMap();
    while (added.hasNext()) {
      AddFile file = (AddFile) added.next();
      String spelled = SPELLED + normal(file.path());
      files.put(wanted.containsKey(spelled) ? spelled : decoded(file.path()), file);
    }
    if (files.size() != wanted.size()) {
      throw new IllegalStateException("the log has " + files.size() + " of " + wanted.size() + " files");
    }
    return files;
  }

  /** Returns a URI as paths have it behind SPELLED; Delta has taken out dots and empty parts. */
  private static String normal(String uri) {
    String[] parts = uri.replaceFirst("^file:/+", "/").split("%", -1);
    StringBuffer normal = new StringBuffer(parts[0]);
    for (int part = 1; part < parts.length; part++) {
      normal.append("%").append(parts[part].substring(0, 2).toUpperCase()).append(parts[part].substring(2));
    }
    return normal.toString();
  }

  private static String decoded(String uri) throws IOException {
    return URLDecoder.decode(uri.replace("+", "%2B"), "UTF-8");
  }

  /**
   * Lets Delta put the state of the table together in the background, while the index is asked: most of what a change
   * takes. What fails here fails again where the files are wanted.
   */
  public void prepare() {
    Thread thread = new Thread("tailbit-state") {
      @Override
      public void run() {
        try {
          snapshot.allFiles().count();
        } catch (RuntimeException again) {
          // Told where the files are wanted.
        }
      }
    };
    thread.setDaemon(true);
    thread.start();
  }

  /** Adds to the commit that rows are deleted: a deletion vector, or the file's removal where no row is left. */
  private void mark(Map files, Map bitmaps, Map known) throws IOException {
    Configuration configuration = snapshot.deltaLog().newDeltaHadoopConf();
    DeletionVectorStore store = DeletionVectorStore$.MODULE$.createInstance(configuration);
    PathWithFileSystem root = PathWithFileSystem.withConf(snapshot.deltaLog().dataPath(), configuration);
    UUID name = UUID.randomUUID();
    DeletionVectorStoreUtils.Writer writer = null;
    try {
      Iterator paths = files.keySet().iterator();
      while (paths.hasNext()) {
        Object path = paths.next();
        AddFile file = (AddFile) files.get(path);
        RoaringBitmapArray deleted = (RoaringBitmapArray) bitmaps.get(path);
        long hiddenBefore = 0;
        if (file.deletionVector() != null) {
          RoaringBitmapArray hidden = (RoaringBitmapArray) known.get(file.deletionVector().uniqueId());
          if (hidden == null) {
            hidden = store.read(file.deletionVector(), snapshot.deltaLog().dataPath());
          }
          hiddenBefore = hidden.cardinality();
          deleted.merge(hidden);
        }
        long cardinality = deleted.cardinality();
        deletedRows += cardinality - hiddenBefore;
        if (cardinality == ((Long) file.numPhysicalRecords().get()).longValue()) {
          actions.add(file.removeWithTimestamp(System.currentTimeMillis(), true));
          removedFiles += 1;
          removedBytes += file.size();
          removedVectors += file.deletionVector() == null ? 0 : 1;
          continue;
        }
        if (writer == null) {
          writer = store.createWriter(store.generateFileNameInTable(root, name, ""));
        }
        byte[] bytes = deleted.serializeAsByteArray(RoaringBitmapArrayFormat.Portable());
        DeletionVectorStoreUtils.DVRangeDescriptor range = writer.write(bytes);
        DeletionVectorDescriptor vector = DeletionVectorDescriptor.onDiskWithRelativePath(
            name, "", bytes.length, cardinality, Option.apply(Integer.valueOf(range.offset())), Option.empty());
        Tuple2 changed = file.removeRows(vector, true, true);
        actions.add(changed._1());
        actions.add(changed._2());
        addedVectors += file.deletionVector() == null ? 1 : 0;
        updatedVectors += file.deletionVector() == null ? 0 : 1;
      }
    } finally {
      if (writer != null) {
        writer.close();
      }
    }
  }

  /** Commits as a DELETE of a condition; returns the version. */
  public long commitDelete(Dataset rows, String application, long number) {
    LogicalPlan filter = rows.queryExecution().analyzed();
    Expression condition = ((Filter) filter).condition();
    // The detection of conflicts resolves read predicates anew, which those that stand for others (BETWEEN) do not bear.
    LogicalPlan replaced = RewriteWithExpression$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(filter));
    Expression read = replaced instanceof Filter ? ((Filter) replaced).condition() : Literal.TrueLiteral();
    Tuple2 parts = DeltaTableUtils.splitMetadataAndDataPredicates(
        read, snapshot.metadata().partitionColumns(), spark);
    List conjuncts = new ArrayList(CollectionConverters.asJava((Seq) parts._1()));
    conjuncts.addAll(CollectionConverters.asJava((Seq) parts._2()));
    transaction.trackReadPredicates(seq(conjuncts), false, true);
    Map metrics = metrics("num");
    metrics.put("numDeletedRows", Long.valueOf(deletedRows));
    metrics.put("numRemovedFiles", Long.valueOf(removedFiles));
    metrics.put("numRemovedBytes", Long.valueOf(removedBytes));
    return commit(new DeltaOperations.Delete(one(condition)), metrics, application, number);
  }

  /** Commits as a MERGE that deletes the rows of keys; returns the version. */
  public long commitDeleteOfKeys(String keys, String application, long number) {
    Map metrics = new HashMap();
    metrics.put("numTargetRowsDeleted", Long.valueOf(deletedRows));
    metrics.put("numTargetRowsMatchedDeleted", Long.valueOf(deletedRows));
    Seq matched = one(new DeltaOperations.MergePredicate(Option.apply(keys), "delete"));
    return commitMerge(metrics, matched, seq(new ArrayList()), application, number);
  }

  /** Commits as a MERGE that updates the deleted rows and inserts others; returns the version. */
  public long commitUpsert(String keys, long inserted, String application, long number) {
    Map metrics = new HashMap();
    metrics.put("numTargetRowsUpdated", Long.valueOf(deletedRows));
    metrics.put("numTargetRowsMatchedUpdated", Long.valueOf(deletedRows));
    metrics.put("numTargetRowsInserted", Long.valueOf(inserted));
    metrics.put("numOutputRows", Long.valueOf(deletedRows + inserted));
    metrics.put("operationNumSourceRows", Long.valueOf(deletedRows + inserted));
    Seq matched = one(new DeltaOperations.MergePredicate(Option.apply(keys), "update"));
    Seq others = one(new DeltaOperations.MergePredicate(Option.empty(), "insert"));
    return commitMerge(metrics, matched, others, application, number);
  }

  private long commitMerge(Map metrics, Seq matched, Seq others, String application, long number) {
    transaction.trackReadPredicates(one(Literal.TrueLiteral()), false, true);
    metrics.putAll(metrics("numTarget"));
    metrics.putIfAbsent("operationNumSourceRows", Long.valueOf(0));
    metrics.put("numTargetFilesRemoved", Long.valueOf(removedFiles));
    metrics.put("numTargetBytesRemoved", Long.valueOf(removedBytes));
    metrics.put("numTargetFilesAdded", Long.valueOf(addedFiles));
    metrics.put("numTargetBytesAdded", Long.valueOf(addedBytes));
    DeltaOperations.Operation merge = new DeltaOperations.Merge(
        Option.empty(), Option.empty(), Option.empty(), Option.empty(), matched, others, seq(new ArrayList()));
    return commit(merge, metrics, application, number);
  }

  /** Returns what an operation tells of deletion vectors, whose names begin as those of the operation do. */
  private Map metrics(String prefix) {
    Map metrics = new HashMap();
    metrics.put(prefix + "DeletionVectorsAdded", Long.valueOf(addedVectors));
    metrics.put(prefix + "DeletionVectorsUpdated", Long.valueOf(updatedVectors));
    metrics.put(prefix + "DeletionVectorsRemoved", Long.valueOf(removedVectors));
    return metrics;
  }

  private long commit(DeltaOperations.Operation operation, Map metrics, String application, long number) {
    if (application != null) {
      Option now = Option.apply(Long.valueOf(System.currentTimeMillis()));
      actions.add(new SetTransaction(application, number, now));
    }
    metrics.put("executionTimeMs", Long.valueOf(System.currentTimeMillis() - began));
    Map told = new HashMap();
    List names = new ArrayList(CollectionConverters.asJava(operation.operationMetrics()));
    names.addAll(metrics.keySet());
    for (int at = 0; at < names.size(); at++) {
      String name = (String) names.get(at);
      SQLMetric metric = SQLMetrics.createMetric(spark.sparkContext(), name);
      metric.set(metrics.containsKey(name) ? ((Long) metrics.get(name)).longValue() : 0);
      told.put(name, metric);
    }
    transaction.registerSQLMetrics(
        spark, scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(told)));
    return transaction.commit(seq(actions), operation);
  }

  private static Seq one(Object element) {
    List list = new ArrayList();
    list.add(element);
    return seq(list);
  }

  private static Seq seq(List list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
