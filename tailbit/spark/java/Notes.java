package io.tailbit.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SQLExecution;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What became of the scans of each session's last query, and how often each mode was served. */
final class Notes {
  private static final Logger LOG = LoggerFactory.getLogger(Notes.class);
  private static final AtomicBoolean isMisfitTold = new AtomicBoolean();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MOST_STATEMENTS = 200;

  /** The notes of each session's last statements, the last one at the end; all others have scans. */
  private static final Map<SparkSession, Deque<Notes>> STATEMENTS = new WeakHashMap<>();

  private static final Map<String, AtomicLong> SERVED = Collections.synchronizedMap(new LinkedHashMap<>());

  /** The notes of each query that is optimized: Delta runs queries of its own between one rule and the other. */
  private static final Map<QueryPlanningTracker, Notes> QUERIES = Collections.synchronizedMap(new WeakHashMap<>());

  /** What the helper has replied beside what it was asked, by the question that need not be asked any more. */
  final Map<String, JsonNode> replies = new HashMap<>();

  /** The notes of scans, in the order of the plan that each rule has seen. */
  private final TreeMap<Integer, Map<String, Object>> scans = new TreeMap<>();

  /** When the statement was planned, since 1970, and its text where it has one. */
  final long microseconds = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());

  String statement;
  private int first;
  private long nanosecondsForRows;

  /** Returns the notes of the query that the thread optimizes. */
  static Notes current() {
    var query = QueryPlanningTracker.get();
    return query.isEmpty() ? new Notes() : QUERIES.computeIfAbsent(query.get(), tracker -> new Notes());
  }

  /** Returns how many milliseconds the query has waited for rows. */
  static long waitedForRows() {
    return current().nanosecondsForRows / 1_000_000;
  }

  static void waitForRows(long nanoseconds) {
    current().nanosecondsForRows += nanoseconds;
  }

  /** Takes a note back, since another rule looks at its scan. */
  void without(Map<String, Object> note) {
    scans.values().removeIf(scan -> scan == note);
  }

  /** Begins with the scans of a plan as it is now, before what is served takes the place of its nodes. */
  void begin(LogicalPlan plan) {
    statement = statement == null ? textOf(plan) : statement;
    first = scans.isEmpty() ? 0 : scans.lastKey() + 1;
  }

  /** Starts the note of a scan, by its place in the plan; whoever holds the note adds to it. */
  Map<String, Object> scan(int place) {
    Map<String, Object> note = new LinkedHashMap<>();
    scans.put(first + place, note);
    return note;
  }

  static void served(Map<String, Object> note, String mode) {
    note.put("served", mode);
  }

  static void declined(Map<String, Object> note, String reason, String detail) {
    note.put("reason", reason);
    note.put("detail", detail);
    lacks(note, reason, detail);
  }

  /** Notes the columns of which an index would have told more. */
  static void lacks(Map<String, Object> note, String reason, String detail) {
    if (reason.equals("not-indexed")) {
      note.put("index", detail);
    }
  }

  /**
   * Counts what was served, and keeps the notes as those of the session's last query. What a command or Delta asks for
   * itself, while a query runs, is kept only where it scans a table.
   */
  void keep(boolean isStatement) {
    for (Map<String, Object> note : scans.values()) {
      boolean isNew = note.put("summary", Summary.of(note)) == null;
      if (isNew && note.get("served") instanceof String mode) {
        SERVED.computeIfAbsent(mode, name -> new AtomicLong()).incrementAndGet();
      }
    }
    var session = SparkSession.getActiveSession();
    if (session.isDefined() && (!scans.isEmpty() || isStatement && !isWithin(session.get()))) {
      add(session.get());
    }
  }

  /** Returns the text of the statement that a plan is of, as far as people read it; null where it had none. */
  private static String textOf(LogicalPlan plan) {
    var origin = plan.find(node -> node.origin().sqlText().isDefined() && node.origin().objectName().isEmpty());
    return origin.isEmpty() ? null : Question.shortened(origin.get().origin().sqlText().get().strip());
  }

  private void add(SparkSession session) {
    synchronized (STATEMENTS) {
      Deque<Notes> statements = STATEMENTS.computeIfAbsent(session, any -> new ArrayDeque<>());
      statements.removeIf(notes -> notes == this || notes.scans.isEmpty());
      statements.add(this);
      if (statements.size() > MOST_STATEMENTS) {
        statements.remove();
      }
    }
  }

  /** Returns the notes of a session's last statements. */
  static List<Notes> ofStatements(SparkSession session) {
    synchronized (STATEMENTS) {
      return List.copyOf(STATEMENTS.getOrDefault(session, new ArrayDeque<>()));
    }
  }

  /** Returns what became of each scan. */
  List<Map<String, Object>> scans() {
    return List.copyOf(scans.values());
  }

  /** Tells whether another query of the thread runs. */
  private static boolean isWithin(SparkSession session) {
    String query = session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return query != null && !query.equals(session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY()));
  }

  /** Returns the notes of a session's last query, or null. */
  static Notes lastOf(SparkSession session) {
    synchronized (STATEMENTS) {
      Deque<Notes> statements = STATEMENTS.get(session);
      return statements == null ? null : statements.peekLast();
    }
  }

  /** Returns a line for each scan, for people. */
  List<String> lines() {
    return scans.values().stream().map(Summary::of).toList();
  }

  /** Keeps for good that no query of a session is looked at, and logs it once. */
  static void otherRelease(SparkSession session, Throwable missing) {
    if (!isMisfitTold.getAndSet(true)) {
      LOG.warn("tailbit does not fit this release of Spark or Delta: {}. Queries run as without it.", missing.toString());
      LOG.debug("What tailbit lacks in this release", missing);
    }
    Notes notes = new Notes();
    declined(notes.scan(0), "other-release", missing.toString());
    notes.add(session);
  }

  static String last(SparkSession session) throws JsonProcessingException {
    Notes notes = lastOf(session);
    return JSON.writeValueAsString(notes == null ? List.of() : notes.scans.values());
  }

  static long number(String mode) {
    AtomicLong number = SERVED.get(mode);
    return number == null ? 0 : number.get();
  }
}
