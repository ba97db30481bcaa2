package io.tailbit.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * Questions that the helper has refused, remembered for some seconds: a query that is asked again gains nothing
 * either, and asks nothing. It is no matter of correctness: what is refused is left to Spark.
 */
final class Refused {
  private static final int MOST_QUESTIONS = 10_000;
  private static final int MOST_LETTERS = 2000;
  private static final Set<String> LASTING =
      Set.of("keeps-all", "no-gain", "many-rows", "many-groups", "many-bytes", "not-exact", "not-covered",
          "not-understood", "nothing-understood", "floating-point", "time-zone");
  private static final Map<String, Refused> QUESTIONS =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Refused> eldest) {
          return size() > MOST_QUESTIONS;
        }
      };

  private final Declined declined;
  private final long until = System.nanoTime() + Settings.knownFor() * 1_000_000;

  private Refused(Declined declined) {
    this.declined = declined;
  }

  /** Returns the reply to a question, which is not asked where it was refused at any version a moment ago. */
  static Helper.Reply ask(ObjectNode question, long budget) throws Declined {
    String key = key(question);
    synchronized (QUESTIONS) {
      Refused refused = QUESTIONS.get(key);
      if (refused != null && refused.until - System.nanoTime() > 0) {
        throw refused.declined;
      }
    }
    try {
      return Helper.askForData(question, budget);
    } catch (Declined declined) {
      remember(question, declined);
      throw declined;
    }
  }

  /** Remembers that a question was refused, if it would be again. */
  static void remember(ObjectNode question, Declined declined) {
    if (LASTING.contains(declined.reason)) {
      synchronized (QUESTIONS) {
        QUESTIONS.put(key(question), new Refused(declined.alone()));
      }
    }
  }

  /** Forgets all questions. */
  static void forget() {
    synchronized (QUESTIONS) {
      QUESTIONS.clear();
    }
  }

  private static String key(ObjectNode question) {
    ObjectNode what = Helper.what(question);
    what.remove("version");
    String text = what.toString();
    return text.length() <= MOST_LETTERS ? text : digest(text);
  }

  /** Returns what stands for a long question: thousands of them are remembered. */
  private static String digest(String text) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest);
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }
}
