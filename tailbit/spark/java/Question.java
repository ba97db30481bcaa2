package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.delta.SnapshotDescriptor;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.internal.SQLConf;

/** What is asked about a scan: its filters in words, its table and its version. */
final class Question {
  private static final ObjectMapper JSON = new ObjectMapper();

  final Map<String, Object> note;
  private final String root;
  private final SnapshotDescriptor at;
  private final PreparedDeltaFileIndex planned;
  private final List<String> texts = new ArrayList<>();
  private final List<String> left = new ArrayList<>();
  private final Words words;
  private boolean selects;

  Question(Scan scan, Map<String, Object> note) throws Declined {
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
        texts.add(words.of(filter));
        selects |= !(filter instanceof IsNotNull);
      } catch (Declined notInWords) {
        left.add(notInWords.detail);
      }
    }
    note.put("asked", texts);
    note.put("left", left);
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
    JsonNode count = Refused.ask(exact("count"), Settings.budget()).head().path("count");
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
    return Refused.ask(question, Settings.budget()).data();
  }

  /** Returns some columns of the rows where the filters that are understood are TRUE. */
  byte[] rows(List<String> columns, int most) throws Declined {
    ObjectNode question = withFilters("rows").put("most", most);
    columns.forEach(question.withArray("columns")::add);
    Helper.Reply reply = waited(question);
    noteUsed(reply.head().path("used"));
    return reply.data();
  }

  /** Asks for rows as long as the query's other questions for them have left of the time for all. */
  private static Helper.Reply waited(ObjectNode question) throws Declined {
    long left = Settings.budgetOfRows() - Notes.waitedForRows();
    if (left < Math.min(Settings.budget(), Settings.budgetOfRows() / 2)) {
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
    return kept(Refused.ask(withFilters("files"), Settings.budget()).head());
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
    noteUsed(reply.path("used"));
    return paths;
  }

  /** Notes which filters the helper has understood. */
  private void noteUsed(JsonNode numbers) {
    List<String> used = new ArrayList<>();
    for (JsonNode number : numbers) {
      if (number.asInt(-1) >= 0 && number.asInt() < texts.size()) {
        used.add(texts.get(number.asInt()));
      }
    }
    texts.stream().filter(text -> !used.contains(text)).forEach(left::add);
    note.put("asked", used);
  }

  private Known known() throws Declined {
    return Known.of(root, at.metadata().id(), asked("known"));
  }

  private ObjectNode withFilters(String want) {
    ObjectNode question = asked(want);
    texts.forEach(question.withArray("where")::add);
    return question;
  }

  private ObjectNode asked(String want) {
    return JSON.createObjectNode()
        .put("want", want)
        .put("root", root)
        .put("table", at.metadata().id())
        .put("version", at.version());
  }
}
