package io.tailbit.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What became of the scans of each session's last query, and how often each mode was served. */
final class Notes {
  private static final Logger LOG = LoggerFactory.getLogger(Notes.class);
  private static final AtomicBoolean isMisfitTold = new AtomicBoolean();
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<SparkSession, List<Map<String, Object>>> LAST =
      Collections.synchronizedMap(new WeakHashMap<>());
  private static final Map<String, AtomicLong> SERVED = Collections.synchronizedMap(new LinkedHashMap<>());

  /** The notes of each query that is optimized: Delta runs queries of its own between one rule and the other. */
  private static final Map<QueryPlanningTracker, Notes> QUERIES = Collections.synchronizedMap(new WeakHashMap<>());

  private final List<Map<String, Object>> scans = new ArrayList<>();
  private int counted;
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
    scans.removeIf(scan -> scan == note);
  }

  /** Starts the note of a scan; whoever holds it adds to it. */
  Map<String, Object> scan() {
    Map<String, Object> note = new LinkedHashMap<>();
    scans.add(note);
    return note;
  }

  static void served(Map<String, Object> note, String mode) {
    note.put("served", mode);
  }

  static void declined(Map<String, Object> note, String reason, String detail) {
    note.put("reason", reason);
    note.put("detail", detail);
  }

  /** Counts what was served, and keeps the notes as those of the session's last query, unless no scan was looked at. */
  void keep() {
    for (; counted < scans.size(); counted++) {
      if (scans.get(counted).get("served") instanceof String mode) {
        SERVED.computeIfAbsent(mode, name -> new AtomicLong()).incrementAndGet();
      }
    }
    var session = SparkSession.getActiveSession();
    if (!scans.isEmpty() && session.isDefined()) {
      LAST.put(session.get(), scans);
    }
  }

  /** Keeps for good that no query of a session is looked at, and logs it once. */
  static void otherRelease(SparkSession session, Throwable missing) {
    if (!isMisfitTold.getAndSet(true)) {
      LOG.warn("tailbit does not fit this release of Spark or Delta: {}. Queries run as without it.", missing.toString());
      LOG.debug("What tailbit lacks in this release", missing);
    }
    Notes notes = new Notes();
    declined(notes.scan(), "other-release", missing.toString());
    LAST.put(session, notes.scans);
  }

  static String last(SparkSession session) throws JsonProcessingException {
    return JSON.writeValueAsString(LAST.getOrDefault(session, List.of()));
  }

  static long number(String mode) {
    AtomicLong number = SERVED.get(mode);
    return number == null ? 0 : number.get();
  }
}
