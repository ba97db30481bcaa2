package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.delta.actions.Metadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/** The columns of tables that indexes read, remembered for some seconds: a query that cannot gain asks nothing. */
final class Known {
  private static final Logger LOG = LoggerFactory.getLogger(Known.class);
  private static final int MOST_TABLES = 1000;
  private static final String NONE = "no-index";
  private static final Map<String, Known> TABLES =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Known> eldest) {
          return size() > MOST_TABLES;
        }
      };

  private final Set<String> columns = new HashSet<>();
  private final Declined declined;
  private volatile boolean wasIndexed;
  private final long until = System.nanoTime() + Settings.knownFor() * 1_000_000;

  private Known(JsonNode reply, Declined declined) {
    this.declined = declined;
    if (reply != null) {
      reply.path("columns").forEach(name -> columns.add(top(name.asText())));
    }
  }

  /** Returns what is known of a table, which is asked for where it is not known or too old. */
  static Known of(String root, String table, ObjectNode question, long budget) throws Declined {
    Known known = held(root, table);
    if (known != null) {
      return known;
    }
    try {
      JsonNode reply = Helper.askForData(question, budget).head();
      String reason = reply.path("reason").asText();
      known = new Known(reply, reason.isEmpty() ? null : Helper.told(new Declined(reason), question));
    } catch (Declined refused) {
      if (Helper.isAbsent(refused)) {
        throw refused;
      }
      known = new Known(null, refused);
    }
    Known before;
    synchronized (TABLES) {
      before = TABLES.put(key(root, table), known);
    }
    known.tellIfGone(before, root);
    return known;
  }

  private void tellIfGone(Known before, String root) {
    wasIndexed = before != null && before.wasIndexed || !columns.isEmpty();
    if (declined != null && declined.reason.equals(NONE)) {
      tellGone(root);
    }
  }

  private void tellGone(String root) {
    if (wasIndexed) {
      LOG.warn("tailbit does not serve {} any more: its index is gone. Queries run as without it.", root);
      wasIndexed = false;
    }
  }

  /** Logs, once, that the index of a table that was served is gone, where an answer has declined for a reason. */
  static void tellIfGone(String root, String table, String reason) {
    Known known;
    synchronized (TABLES) {
      known = TABLES.get(key(root, table));
    }
    if (known != null && reason.equals(NONE)) {
      known.tellGone(root);
    }
  }

  /** Returns what is remembered of a table, or null. */
  static Known held(String root, String table) {
    synchronized (TABLES) {
      Known known = TABLES.get(key(root, table));
      return known != null && known.until - System.nanoTime() > 0 ? known : null;
    }
  }

  private static String key(String root, String table) {
    return table + " " + root;
  }

  /** Refuses a table without an index, and conditions on columns that no index reads. */
  void check(Set<String> read) throws Declined {
    if (declined != null) {
      throw declined;
    }
    if (columns.isEmpty()) {
      throw new Declined(NONE);
    }
    if (!read.isEmpty() && read.stream().map(Known::top).noneMatch(columns::contains)) {
      throw new Declined("not-indexed", String.join(", ", read));
    }
  }

  /** Refuses an exact answer that needs columns which are neither indexed nor partition columns. */
  void checkAll(Set<String> read, Metadata metadata) throws Declined {
    if (declined != null) {
      throw declined;
    }
    if (columns.isEmpty()) {
      throw new Declined(NONE);
    }
    Set<String> told = new HashSet<>(columns);
    CollectionConverters.asJava(metadata.partitionColumns()).forEach(name -> told.add(top(name)));
    for (String name : read) {
      if (!told.contains(top(name))) {
        throw new Declined("not-indexed", name);
      }
    }
  }

  /** Forgets all tables. */
  static void forget() {
    synchronized (TABLES) {
      TABLES.clear();
    }
  }

  /** Returns the outermost part of a column's name; one that holds a dot is cut too, which asks too much at most. */
  private static String top(String name) {
    int dot = name.indexOf('.');
    return (dot < 0 ? name : name.substring(0, dot)).toLowerCase(Locale.ROOT);
  }
}
