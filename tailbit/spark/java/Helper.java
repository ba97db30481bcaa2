package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process that answers from the index, one for each JVM, and how long to leave it alone after it failed.
 *
 * A question waits at most for the budget. After that nothing is asked for a second, then two, and so on up to a
 * minute, until the late reply comes; the table of the question has such a pause of its own. Questions that were
 * asked at the same moment make one pause. What was asked in vain is answered beside. Whether a late process is alive is asked too: it says so at once, however
 * long its answers take. One that stays silent, ends or writes what is no reply is ended, and started again after the
 * pause. No query waits for a start.
 */
final class Helper {
  private static final Logger LOG = LoggerFactory.getLogger(Helper.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long SECOND = 1_000_000_000L;
  private static final int LONGEST_PAUSE = 60;
  private static final int MOST_BYTES = 64 << 20;
  private static final AtomicLong NUMBERS = new AtomicLong();
  /** Numbers below 0, of questions whether the process is alive. */
  private static final AtomicLong ALIVE = new AtomicLong();
  private static final Set<String> TROUBLES =
      Set.of("damaged-index", "older-format", "other-history", "another-table", "no-table", "error", "malformed");
  private static final int MOST_TOLD = 1000;
  private static final int MOST_LATE = 8;
  private static final int MOST_BYTES_OF_LATE = 1 << 20;
  /** What was asked of questions that no query waits for any more, with the replies that have come or will come. */
  private static final Map<String, CompletableFuture<Reply>> LATE =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, CompletableFuture<Reply>> eldest) {
          return size() > MOST_LATE;
        }
      };
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(Helper::shutDown));
  }

  private static volatile Helper current;
  private static String python;
  /** Why the helper of `python` is of another release than this jar, or null: it is not started again. */
  private static String misfit;
  private static String toldOfEnd;
  private static Pause pause = new Pause();
  /** What a scan of Spark takes on this machine, as the process has measured it. */
  private static volatile JsonNode costs = JSON.createObjectNode();
  private static final Map<String, Pause> TABLES = new ConcurrentHashMap<>();

  private final Map<Long, CompletableFuture<Reply>> waiting = new ConcurrentHashMap<>();
  private final LinkedBlockingQueue<byte[]> lines = new LinkedBlockingQueue<>();
  private final CompletableFuture<Reply> first = new CompletableFuture<>();
  private volatile Process process;
  private volatile String ended;
  /** The question whether the process is alive that nothing has followed yet, or 0; and when it was asked. */
  private long aliveNumber;
  private long aliveAsked;

  /** The head of a reply, and the bytes that follow it. */
  record Reply(JsonNode head, byte[] data) {}

  /** Until when nothing is asked, and how often that was needed without a good reply between. */
  private static final class Pause {
    int failures;
    long since;
    long until;

    /** Makes the pause longer for a question, unless that was asked before the pause began. */
    void longer(long asked) {
      if (failures == 0 || asked - since > 0) {
        failures++;
        since = System.nanoTime();
        until = since + SECOND * Math.min(LONGEST_PAUSE, 1L << Math.min(failures - 1, 6));
      }
    }

    boolean holds() {
      return failures > 0 && until - System.nanoTime() > 0;
    }
  }

  /** Tells whether a question was declined because nobody answered: it says nothing about the table. */
  static boolean isAbsent(Declined declined) {
    return declined.reason.startsWith("helper-");
  }

  static long asked() {
    return NUMBERS.get();
  }

  static synchronized long process() {
    return current == null || current.ended != null || current.process == null ? -1 : current.process.pid();
  }

  /** Starts the process in the background, unless it runs already. */
  static synchronized void start(String interpreter) {
    if (!interpreter.equals(python)) {
      misfit = null;
    }
    python = interpreter;
    if (current == null || current.ended != null) {
      current = new Helper();
      background("tailbit-helper", current::run);
    }
  }

  /** Waits for the first reply of the process, if any time is given. */
  static void await(long milliseconds) {
    try {
      if (milliseconds > 0) {
        ready(milliseconds);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Waits for the first reply of the process; returns what is wrong, or nothing. */
  static String ready(long milliseconds) throws InterruptedException {
    Helper helper;
    synchronized (Helper.class) {
      helper = current;
    }
    try {
      helper.first.get(milliseconds, TimeUnit.MILLISECONDS);
      return "";
    } catch (ExecutionException wrong) {
      return String.valueOf(wrong.getCause().getMessage());
    } catch (TimeoutException late) {
      return "no reply in " + milliseconds + " ms";
    }
  }

  /** Returns the milliseconds that Spark takes for some files of a table of which it lists the files before. */
  static double millisecondsOfSpark(long files, long bytes, int cores) {
    double work = files * costs.path("file_ms").asDouble() + bytes * costs.path("byte_ms").asDouble();
    return costs.path("job_ms").asDouble() + work / Math.max(1, Math.min(cores, files));
  }

  /**
   * Returns the reply to a question, which names its table and version as the question does. A reply that comes too
   * late for its query is kept for those that ask the same; a long one, for the next.
   */
  static Reply askForData(ObjectNode question, long budget) throws Declined {
    String what = what(question).toString();
    Reply late = lateReply(what, question);
    if (late != null) {
      return late;
    }
    String table = question.path("root").asText();
    Helper helper = at(table);
    long number = NUMBERS.incrementAndGet();
    long asked = System.nanoTime();
    CompletableFuture<Reply> future = new CompletableFuture<>();
    helper.waiting.put(number, future);
    helper.lines.add((question.put("id", number).put("budget_ms", budget) + "\n").getBytes(StandardCharsets.UTF_8));
    if (helper.ended != null) {
      throw new Declined("helper-ended", helper.ended);
    }
    try {
      Reply reply = checked(future.get(budget, TimeUnit.MILLISECONDS), question);
      TABLES.remove(table);
      return reply;
    } catch (TimeoutException tooLate) {
      synchronized (LATE) {
        LATE.put(what, future);
      }
      helper.isLate(table, asked);
      future.thenAccept(reply -> TABLES.remove(table));
      throw new Declined("helper-late", budget + " ms");
    } catch (ExecutionException wrong) {
      throw new Declined("helper-ended", String.valueOf(wrong.getCause().getMessage()));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new Declined("helper-interrupted");
    }
  }

  /** Returns what a question asks, whoever asks it and however long it waits. */
  static ObjectNode what(ObjectNode question) {
    return question.deepCopy().remove(List.of("files", "id", "budget_ms"));
  }

  /** Returns the reply to a question for which a query has waited in vain, or null; refuses one that is to come. */
  private static Reply lateReply(String what, ObjectNode question) throws Declined {
    CompletableFuture<Reply> future;
    synchronized (LATE) {
      future = LATE.get(what);
      if (future == null) {
        return null;
      }
      if (!future.isDone()) {
        throw new Declined("helper-late", "the same question is still being answered");
      }
    }
    Reply reply = future.exceptionally(gone -> null).join();
    if (reply == null || reply.head().has("declined") || reply.data().length > MOST_BYTES_OF_LATE) {
      synchronized (LATE) {
        LATE.remove(what, future);
      }
    }
    return reply == null || reply.head().path("declined").asText().equals("late") ? null : checked(reply, question);
  }

  /** Returns the process, where it runs and may be asked of a table now. */
  private static synchronized Helper at(String table) throws Declined {
    if (misfit != null && Settings.python().equals(python)) {
      throw new Declined("other-release", misfit);
    }
    if (pause.holds()) {
      throw new Declined("helper-paused", current == null ? "" : String.valueOf(current.ended));
    }
    if (current == null || current.ended != null) {
      start(Settings.python());
    }
    if (!current.first.isDone()) {
      throw new Declined("helper-starting");
    }
    Pause own = TABLES.get(table);
    if (own != null && own.holds()) {
      throw new Declined("helper-paused", "its last answer about this table came too late");
    }
    return current;
  }

  private static Reply checked(Reply reply, ObjectNode question) throws Declined {
    JsonNode head = reply.head();
    if (head.has("declined")) {
      Known.tellIfGone(question.path("root").asText(), question.path("table").asText(), head.get("declined").asText());
      throw told(Declined.of(head), question);
    }
    checkVersion(head, question);
    return reply;
  }

  /** Refuses a reply that is not about the table and the version of a question. */
  static void checkVersion(JsonNode head, ObjectNode question) throws Declined {
    boolean same =
        head.path("table").equals(question.get("table"))
            && head.path("version").isIntegralNumber()
            && head.path("version").asLong() == question.get("version").asLong();
    if (!same) {
      throw new Declined("another-table", "the reply is of " + head.path("table") + " at " + head.path("version"));
    }
  }

  /** Logs a reason that someone can mend, once for each table. */
  static Declined told(Declined declined, ObjectNode question) {
    String table = question.path("root").asText();
    if (TROUBLES.contains(declined.reason) && TOLD.size() < MOST_TOLD && TOLD.add(declined.reason + " " + table)) {
      String why = declined.detail.isEmpty() ? declined.reason : declined.reason + ", " + declined.detail;
      LOG.warn("tailbit does not serve {}: {}. Queries run as without it; `tailbit status {}` says more.", table, why, table);
    }
    return declined;
  }

  private void isLate(String table, long asked) {
    boolean isSilent;
    synchronized (Helper.class) {
      if (ended != null) {
        return;
      }
      pause.longer(asked);
      TABLES.computeIfAbsent(table, name -> new Pause()).longer(asked);
      isSilent = aliveNumber != 0 && asked - aliveAsked > 0 && System.nanoTime() - aliveAsked > SECOND;
      if (aliveNumber == 0) {
        aliveNumber = ALIVE.decrementAndGet();
        aliveAsked = System.nanoTime();
        lines.add(readiness(aliveNumber));
      }
    }
    if (isSilent) {
      end("it gave no reply to a question in time, nor said since that it is alive");
    }
  }

  /** Returns a question that the process answers before all others; the first one tells it what jar asks. */
  private static byte[] readiness(long number) {
    ObjectNode question = JSON.createObjectNode().put("id", number).put("want", "ready");
    if (number == 0) {
      question.put("sources", Release.sources());
    }
    return (question + "\n").getBytes(StandardCharsets.UTF_8);
  }

  private void run() {
    try {
      Process started =
          new ProcessBuilder(python, "-m", "tailbit.spark.helper")
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      process = started;
      background("tailbit-questions", () -> write(started.getOutputStream()));
      waiting.put(0L, first);
      lines.add(readiness(0));
      read(new BufferedInputStream(started.getInputStream()));
      String hint = first.isDone() ? "" : " before it answered, so that Python may lack tailbit";
      end("the process of " + python + " ended with status " + started.waitFor() + hint);
    } catch (IOException | InterruptedException | RuntimeException wrong) {
      end(wrong.toString());
    }
  }

  private void write(OutputStream questions) {
    try {
      while (ended == null) {
        byte[] line = lines.poll(1, TimeUnit.SECONDS);
        if (line != null) {
          questions.write(line);
          questions.flush();
        }
      }
      questions.close();
    } catch (IOException | InterruptedException wrong) {
      end(wrong.toString());
    }
  }

  private void read(InputStream replies) throws IOException {
    for (byte[] line = line(replies); line != null; line = line(replies)) {
      JsonNode head = JSON.readTree(line);
      int length = head.path("arrow").asInt(0);
      if (!head.isObject() || !head.path("id").isIntegralNumber() || length < 0 || length > MOST_BYTES) {
        throw new IOException("a reply is no JSON object with an id");
      }
      byte[] data = replies.readNBytes(length);
      if (data.length < length) {
        throw new IOException("a reply is cut off");
      }
      if (head.path("declined").asText().equals("other-release")) {
        isOfOtherRelease(head.path("detail").asText());
        return;
      }
      long number = head.path("id").asLong();
      costs = head.has("costs") ? head.get("costs") : costs;
      isAlive(number);
      CompletableFuture<Reply> future = waiting.remove(number);
      if (future != null) {
        future.complete(new Reply(head, data));
      }
    }
  }

  /** Notes a reply; that to a question whether the process is alive ends no pause, since its answers are late. */
  private void isAlive(long number) {
    synchronized (Helper.class) {
      aliveNumber = 0;
      if (number >= 0) {
        pause = new Pause();
        toldOfEnd = null;
      }
    }
  }

  private void isOfOtherRelease(String detail) {
    synchronized (Helper.class) {
      misfit = detail;
    }
    end(detail);
  }

  private static byte[] line(InputStream replies) throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    for (int next = replies.read(); next != '\n'; next = replies.read()) {
      if (next < 0) {
        return null;
      }
      line.write(next);
      if (line.size() > MOST_BYTES) {
        throw new IOException("a reply is too long");
      }
    }
    return line.toByteArray();
  }

  /** Ends the process, once, and lets nobody wait for it; why is logged once until a process answers again. */
  private void end(String why) {
    boolean isTold;
    synchronized (Helper.class) {
      if (ended != null) {
        return;
      }
      ended = why;
      pause.longer(System.nanoTime());
      isTold = why.equals(toldOfEnd);
      toldOfEnd = why;
    }
    if (process != null) {
      process.destroyForcibly();
    }
    if (!isTold) {
      LOG.warn("The helper of tailbit is gone: {}. Queries run as without tailbit.", why);
    }
    IOException gone = new IOException(why);
    first.completeExceptionally(gone);
    waiting.values().forEach(future -> future.completeExceptionally(gone));
  }

  private static void shutDown() {
    Helper helper = current;
    if (helper != null && helper.process != null) {
      // Nobody is told that the process is gone where all of Java goes.
      helper.ended = "Java ends";
      helper.process.destroyForcibly();
    }
  }

  private static void background(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }
}
