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

  /** The notes of the plan that the thread optimizes, from the early rule until the late one. */
  private static final ThreadLocal<Notes> CURRENT = new ThreadLocal<>();

  /** The notes of the plan that the thread has optimized last. */
  private static final ThreadLocal<Notes> LATEST = ThreadLocal.withInitial(Notes::new);

  private final List<Map<String, Object>> scans = new ArrayList<>();
  private long nanosecondsForRows;

  /** Returns notes that the late rule goes on with. */
  static Notes begun() {
    Notes notes = new Notes();
    CURRENT.set(notes);
    LATEST.set(notes);
    return notes;
  }

  /** Returns the notes of the early rule, once, or new ones. */
  static Notes continued() {
    Notes notes = CURRENT.get();
    CURRENT.remove();
    if (notes == null) {
      notes = new Notes();
      LATEST.set(notes);
    }
    return notes;
  }

  /** Returns how many milliseconds the plan has waited for rows. */
  static long waitedForRows() {
    return LATEST.get().nanosecondsForRows / 1_000_000;
  }

  static void waitForRows(long nanoseconds) {
    LATEST.get().nanosecondsForRows += nanoseconds;
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
    SERVED.computeIfAbsent(mode, name -> new AtomicLong()).incrementAndGet();
  }

  static void declined(Map<String, Object> note, String reason, String detail) {
    note.put("reason", reason);
    note.put("detail", detail);
  }

  /** Keeps the notes as those of the session's last query, unless no scan was looked at. */
  void keep() {
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
