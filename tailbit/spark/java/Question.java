package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.delta.SnapshotDescriptor;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.internal.SQLConf;

/** What is asked about a scan: its filters in words, its table and its version. */
final class Question {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MOST_LETTERS = 500;

  /** Letters of a filter, some two thousand items of a list: what the helper reads of it is not weighed. */
  private static final int MOST_LETTERS_OF_FILTER = 20_000;

  /** What the helper takes to read a key of a list, and the most of Spark's own time that it may read keys. */
  private static final double MILLISECONDS_OF_KEY = 0.02, MOST_SHARE_OF_KEYS = 0.1;

  final Map<String, Object> note;
  private final String root;
  private final Scan scan;
  private final SnapshotDescriptor at;
  private final PreparedDeltaFileIndex planned;
  private final List<String> texts = new ArrayList<>();

  /** What people read of conditions by the keys of joins, which are cells of another table. */
  private final Map<String, String> keys = new HashMap<>();

  private final Set<String> left = new LinkedHashSet<>();
  private final Words words;
  private String firstBy;
  private boolean selects;
  private boolean asksForLess;

  Question(Scan scan, Map<String, Object> note) throws Declined {
    this.scan = scan;
    this.at = scan.at();
    this.planned = scan.planned();
    this.note = note;
    root = Roots.of(at.deltaLog().dataPath());
    words = new Words(at.metadata().schema(), scan.relation().outputSet(), at.deltaLog().dataPath().getName());
    note.put("table", root);
    note.put("version", at.version());
    checkScan();
    for (Expression filter : scan.filters()) {
      try {
        String text = words.of(JoinKeys.withValues(filter));
        if (text.length() > MOST_LETTERS_OF_FILTER) {
          throw new Declined("not-in-words", "a list of " + text.length() + " letters");
        }
        texts.add(text);
        selects |= !(filter instanceof IsNotNull);
      } catch (Declined notInWords) {
        left.add(notInWords.detail);
      }
    }
    for (JoinKeys.Implied implied : scan.implied()) {
      if (implied.keys().size() * MILLISECONDS_OF_KEY > MOST_SHARE_OF_KEYS * millisecondsOfSpark()) {
        continue;
      }
      try {
        String text = words.of(implied.condition());
        texts.add(text);
        keys.put(text, words.of(implied.own()) + KeySet.told(implied.keys().size()));
        selects = true;
        asksForLess = true;
      } catch (Declined notInWords) {
        // The join stands where it stood.
        continue;
      }
    }
    if (scan.first() != null && left.isEmpty() && scan.implied().isEmpty()) {
      try {
        Words.checkCalendar(scan.first().column().dataType());
        firstBy = words.of(scan.first().column());
        selects = true;
        asksForLess = true;
      } catch (Declined notInWords) {
        // All rows are asked for.
        firstBy = null;
      }
    }
    note.put("asked", texts.stream().map(this::told).toList());
    note.put("left", left);
  }

  private String told(String text) {
    return shortened(keys.getOrDefault(text, text));
  }

  /** Returns a condition as far as people read it. */
  static String shortened(String text) {
    return text.length() <= MOST_LETTERS ? text : text.substring(0, MOST_LETTERS) + "…";
  }

  private void checkScan() throws Declined {
    if (!Settings.includes(root)) {
      throw new Declined("not-served", "not among spark.tailbit.tables");
    }
    if (at.version() < 0 || at.isCatalogOwned()) {
      throw new Declined("unsupported-table", "its catalog owns its commits");
    }
  }

  /** Returns the number of rows where the filters are TRUE. */
  long count() throws Declined {
    JsonNode count = Refused.ask(exact("count"), budget()).head().path("count");
    if (!count.isIntegralNumber() || count.asLong() < 0) {
      throw new Declined("malformed", "the reply has no count");
    }
    return count.asLong();
  }

  /**
   * Returns groups by some columns, the number of rows of each where the filters are TRUE, and measures of them:
   * pairs of a function and a column.
   */
  byte[] groups(List<String> by, List<List<String>> measures, int most) throws Declined {
    ObjectNode question = exact("groups").put("most", most);
    by.forEach(question.withArray("by")::add);
    measures.forEach(pair -> pair.forEach(question.withArray("measures").addArray()::add));
    return Refused.ask(question, budget()).data();
  }

  /** Returns some columns of the rows where the filters that are understood are TRUE. */
  byte[] rows(List<String> columns, int most) throws Declined {
    ObjectNode question = withCosts("rows").put("most", most).put("or_files", Settings.serves("files"));
    question.put("files", planned == null ? 0 : scan.numberOfFiles());
    columns.forEach(question.withArray("columns")::add);
    try {
      Helper.Reply reply = waited(question);
      noteUsed(reply.head());
      for (String told : List.of("rows_ms", "spark_ms", "files", "of")) {
        note.put(told, reply.head().path(told).asLong());
      }
      return reply.data();
    } catch (Declined declined) {
      keepInstead(declined.instead, question);
      throw declined;
    }
  }

  /**
   * Returns the bytes of the rows that the filters leave, by what was declined with their number: as Spark takes rows
   * to be long, and at least their share of the files. -1 where the number is not known, or is of fewer rows.
   */
  long bytes(Declined declined) {
    if (asksForLess || declined.rows < 0) {
      return -1;
    }
    return Math.max(IndexedAnswer.width(scan.relation().output()) * declined.rows, declined.bytes);
  }

  /** Keeps the files that were named in place of rows until the query asks for them. */
  private void keepInstead(JsonNode files, ObjectNode question) throws Declined {
    if (files != null) {
      Helper.checkVersion(files, question);
      Notes.current().replies.put(withCosts("files").toString(), files);
    }
  }

  /** Asks for rows as long as the query's other questions for them have left of the time for all. */
  private Helper.Reply waited(ObjectNode question) throws Declined {
    long left = budget() - Notes.waitedForRows();
    if (left < budget() / 2) {
      throw new Declined("late", "other questions of the query took the time");
    }
    long began = System.nanoTime();
    try {
      return Refused.ask(question, left);
    } finally {
      Notes.waitForRows(System.nanoTime() - began);
    }
  }

  /** Refuses what is known to be refused, without a question: no filter in words, or none by an indexed column. */
  void checkKnown() throws Declined {
    Known known = Known.held(root, at.metadata().id());
    if (known != null) {
      known.check(words.columns);
    }
  }

  /** Returns the words of a column of the table that is shown as it is. */
  String shown(AttributeReference column) throws Declined {
    return words.shown(column);
  }

  /** Refuses what no index makes quicker, save counts: no filter in words, or none by an indexed column. */
  void checkGains() throws Declined {
    if (!selects) {
      throw new Declined(left.isEmpty() ? "no-filter" : "not-in-words", String.join(", ", left));
    }
    known().check(words.columns);
  }

  /** Returns the words of a column that groups are by, which are read too. */
  String column(Expression column) throws Declined {
    return words.of(column);
  }

  /** Tells whether the index knows exactly where the filters are TRUE; if not, notes why nothing is counted. */
  boolean isExact() {
    try {
      checkExact();
      return true;
    } catch (Declined declined) {
      note.put("not_counted", declined.reason);
      Notes.lacks(note, declined.reason, declined.detail);
      return false;
    }
  }

  /** Refuses filters that are not all in words, and columns that are neither indexed nor of a partition. */
  private void checkExact() throws Declined {
    if (!left.isEmpty()) {
      throw new Declined("not-in-words", String.join(", ", left));
    }
    known().checkAll(words.columns, at.metadata());
  }

  /** Returns a question that only all filters answer. */
  private ObjectNode exact(String want) throws Declined {
    if (SQLConf.get().ignoreMissingFiles() || SQLConf.get().ignoreCorruptFiles()) {
      throw new Declined("not-served", "the session ignores files that it cannot read");
    }
    checkExact();
    return withFilters(want);
  }

  /** Returns the paths of the files that may hold a row where the filters are TRUE. */
  Set<String> files() throws Declined {
    if (!Settings.serves("files")) {
      throw new Declined("not-served");
    }
    if (planned.preparedScan().files().size() < 2) {
      throw new Declined("few-files", planned.preparedScan().files().size() + " left by Delta");
    }
    ObjectNode question = withCosts("files");
    JsonNode reply = Notes.current().replies.remove(question.toString());
    if (reply == null) {
      reply = Refused.ask(question, budget()).head();
    } else if (reply.has("declined")) {
      Declined declined = Declined.of(reply);
      Refused.remember(question, declined);
      throw declined;
    }
    return kept(reply);
  }

  private Set<String> kept(JsonNode reply) throws Declined {
    JsonNode keep = reply.path("keep");
    var number = planned.numOfFilesIfKnown();
    boolean plausible =
        keep.isArray()
            && reply.path("total").isIntegralNumber()
            && (number.isEmpty() || reply.path("total").asLong() == (Long) number.get());
    if (!plausible) {
      throw new Declined("malformed", "the reply is not about the files of this version");
    }
    Set<String> paths = new HashSet<>();
    for (JsonNode path : keep) {
      if (!path.isTextual()) {
        throw new Declined("malformed", "a path is no text");
      }
      paths.add(path.asText());
    }
    noteUsed(reply);
    return paths;
  }

  /** Notes which filters the helper has understood. */
  private void noteUsed(JsonNode reply) {
    List<String> used = new ArrayList<>();
    for (JsonNode number : reply.path("used")) {
      if (number.asInt(-1) >= 0 && number.asInt() < texts.size()) {
        used.add(texts.get(number.asInt()));
      }
    }
    texts.stream().filter(text -> !used.contains(text)).map(this::told).forEach(left::add);
    if (reply.path("first").asBoolean()) {
      used.add("the first " + scan.first().most() + (scan.first().isDistinct() ? " values by " : " by ") + firstBy);
    }
    note.put("asked", used.stream().map(this::told).toList());
  }

  private Known known() throws Declined {
    return Known.of(root, at.metadata().id(), asked("known"), budget());
  }

  /** Returns the longest time in milliseconds that the query waits for an answer about the scan. */
  private long budget() {
    return Settings.budget(millisecondsOfSpark());
  }

  private double millisecondsOfSpark() {
    return Helper.millisecondsOfSpark(scan.numberOfFiles(), scan.bytes(), cores());
  }

  private static int cores() {
    return Math.max(1, SparkSession.active().sparkContext().defaultParallelism());
  }

  private ObjectNode withFilters(String want) {
    ObjectNode question = asked(want);
    texts.forEach(question.withArray("where")::add);
    return question;
  }

  /** Returns a question with what the costs of Spark's own scan depend on. */
  private ObjectNode withCosts(String want) {
    ObjectNode question = withFilters(want).put("cores", cores()).put("share", Settings.mostShare());
    return firstBy == null ? question : scan.first().asked(question, firstBy);
  }

  private ObjectNode asked(String want) {
    return JSON.createObjectNode()
        .put("want", want)
        .put("root", root)
        .put("table", at.metadata().id())
        .put("version", at.version());
  }
}
