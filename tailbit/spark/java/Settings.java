package io.tailbit.spark;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.internal.SQLConf;

/** The settings of a session: each is read for each query, so that SET takes effect at once. */
final class Settings {
  private Settings() {}

  static boolean enabled() {
    return text("enabled", "true").equalsIgnoreCase("true");
  }

  /** Tells whether a mode (files, counts, groups, rows, positions) is served. */
  static boolean serves(String mode) {
    return list("serve", "files,counts,groups,rows,positions").contains(mode);
  }

  /** Tells whether a table is served: every table, unless paths are given; then those, and tables below them. */
  static boolean includes(String root) {
    List<String> paths = list("tables", "");
    return paths.isEmpty() || paths.stream().anyMatch(path -> Roots.isAtOrBelow(root, path));
  }

  /** Returns the longest time in milliseconds that a query waits for one answer. */
  static long budget() {
    return number("budgetMs", 200);
  }

  /** Returns the longest time in milliseconds that a query waits for its rows, which Spark then need not read. */
  static long budgetOfRows() {
    return Math.max(budget(), number("rowsMs", 1000));
  }

  /** Returns the most rows that a plan holds in place of a scan. */
  static int mostRows() {
    return (int) number("mostRows", 1000);
  }

  /** Returns how long in milliseconds the first query of a session started by conf waits for the helper's start. */
  static long start() {
    return number("startMs", 0);
  }

  /** Returns for how many milliseconds the indexed columns of a table are remembered. */
  static long knownFor() {
    return number("knownMs", 10_000);
  }

  /** Tells whether Delta takes the places of rows from Parquet; else it counts the rows of files read whole. */
  static boolean readsRowIndex() {
    return !SQLConf.get()
        .getConfString("spark.databricks.delta.deletionVectors.useMetadataRowIndex", "true")
        .equalsIgnoreCase("false");
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
