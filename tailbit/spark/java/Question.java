package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;

/** What is asked about a scan: its filters in words, its table and its version. */
final class Question {
  private static final ObjectMapper JSON = new ObjectMapper();

  final Map<String, Object> note;
  private final String root;
  private final PreparedDeltaFileIndex planned;
  private final List<String> texts = new ArrayList<>();
  private final List<String> left = new ArrayList<>();
  private final Words words;
  private boolean selects;

  Question(Scan scan, Map<String, Object> note) throws Declined {
    this.planned = scan.planned();
    this.note = note;
    root = Roots.of(planned.deltaLog().dataPath());
    words = new Words(planned.metadata().schema(), scan.relation().outputSet(), planned.deltaLog().dataPath().getName());
    note.put("table", root);
    note.put("version", planned.version());
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
    if (planned.version() < 0 || planned.isCatalogOwned()) {
      throw new Declined("unsupported-table", "its catalog owns its commits");
    }
  }

  /** Returns the number of rows where the filters are TRUE. */
  long count() throws Declined {
    JsonNode count = Helper.ask(exact("count")).path("count");
    if (!count.isIntegralNumber() || count.asLong() < 0) {
      throw new Declined("malformed", "the reply has no count");
    }
    return count.asLong();
  }

  /** Returns the groups by some columns, and the number of rows of each where the filters are TRUE. */
  byte[] groups(List<String> by, int most) throws Declined {
    ObjectNode question = exact("groups").put("most", most);
    by.forEach(question.withArray("by")::add);
    return Helper.askForData(question).data();
  }

  /** Returns the words of a column that groups are by, which are read too. */
  String column(Expression column) throws Declined {
    return words.of(column);
  }

  /** Returns a question that only all filters answer. */
  private ObjectNode exact(String want) throws Declined {
    if (!left.isEmpty()) {
      throw new Declined("not-in-words", String.join(", ", left));
    }
    known().checkAll(words.columns, planned.metadata());
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
    if (!selects) {
      throw new Declined(left.isEmpty() ? "no-filter" : "not-in-words", String.join(", ", left));
    }
    known().check(words.columns);
    JsonNode reply = Helper.ask(withFilters("files"));
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
    return Known.of(root, planned.metadata().id(), asked("known"));
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
        .put("table", planned.metadata().id())
        .put("version", planned.version());
  }
}
