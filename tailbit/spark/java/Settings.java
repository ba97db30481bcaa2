package io.tailbit.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The settings of a session: each is read for each query, so that SET takes effect at once. */
final class Settings {
  private static final Logger LOG = LoggerFactory.getLogger(Settings.class);
  private static final List<String> MODES = List.of("files", "counts", "groups", "rows");
  private static final int MOST_TOLD = 100;
  private static final double SHARE = 0.7;
  /** In milliseconds: no query waits longer for a process that does not answer, however much it has to read. */
  private static final double LONGEST = 5_000;
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();

  private Settings() {}

  static boolean enabled() {
    return text("enabled", "true").equalsIgnoreCase("true");
  }

  /** Tells whether a mode is served; logs, once, a mode of the setting that there is none of. */
  static boolean serves(String mode) {
    List<String> served = list("serve", String.join(",", MODES));
    for (String given : served) {
      if (!MODES.contains(given) && TOLD.size() < MOST_TOLD && TOLD.add(given)) {
        LOG.warn("spark.tailbit.serve: {} Other modes are served as they are given.", misfit(given));
      }
    }
    return served.contains(mode);
  }

  private static String misfit(String mode) {
    return mode.equals("positions")
        ? "the mode positions is gone: give rows, and files for more rows than a plan holds."
        : "'" + mode + "' is no mode: these are " + String.join(", ", MODES) + ".";
  }

  /** Tells whether a table is served: every table, unless paths are given; then those, and tables below them. */
  static boolean includes(String root) {
    List<String> paths = list("tables", "");
    return paths.isEmpty() || paths.stream().anyMatch(path -> Roots.isAtOrBelow(root, path));
  }

  /**
   * Returns the longest time in milliseconds that a query waits for an answer, or for the rows of all its scans: what
   * is set, or a share of what Spark's own scan takes.
   */
  static long budget(double millisecondsOfSpark) {
    return number("budgetMs", (long) Math.min(LONGEST, SHARE * millisecondsOfSpark));
  }

  /** Returns the most rows that a plan holds in place of a scan. */
  static int mostRows() {
    return (int) number("mostRows", 100_000);
  }

  /** Returns the most of the time of Spark's own scan that rows may take, by estimate; above 1 costs do not matter. */
  static double mostShare() {
    try {
      return Math.max(0, Double.parseDouble(text("mostShare", "").trim()));
    } catch (NumberFormatException none) {
      return SHARE;
    }
  }

  /** Returns how long in milliseconds the first query of a session started by conf waits for the helper's start. */
  static long start() {
    return number("startMs", 0);
  }

  /** Returns for how many milliseconds the indexed columns of a table are remembered. */
  static long knownFor() {
    return number("knownMs", 10_000);
  }

  static String python() {
    return text("python", "python3");
  }

  private static long number(String name, long otherwise) {
    try {
      return Long.parseLong(text(name, "").trim());
    } catch (NumberFormatException none) {
      return otherwise;
    }
  }

  private static List<String> list(String name, String otherwise) {
    return Arrays.stream(text(name, otherwise).split(",")).map(String::trim).filter(s -> !s.isEmpty()).toList();
  }

  private static String text(String name, String otherwise) {
    return SQLConf.get().getConfString("spark.tailbit." + name, otherwise);
  }
}
