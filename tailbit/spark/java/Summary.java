package io.tailbit.spark;

import java.util.List;
import java.util.Map;

/** A line for people about a scan: what the index did for it, or what it would have needed. */
final class Summary {
  private static final Map<String, String> NEEDS =
      Map.of(
          "no-index", "it has no index; CREATE INDEX or `tailbit run` makes one",
          "not-indexed", "needs an index of",
          "not-in-words", "needs a condition that an index answers, unlike",
          "no-filter", "needs a condition, or counts by indexed columns: every row is read",
          "few-files", "all rows are in one file or none,",
          "keeps-all", "needs a condition that leaves files out: rows lie in",
          "non-deterministic", "needs a statement whose values do not depend on the order of rows");

  private Summary() {}

  /** Returns the line of a note. */
  static String of(Map<String, Object> note) {
    String table = note.getOrDefault("table", "a table") + " at version " + note.getOrDefault("version", "?");
    String keys = note.containsKey("keys") ? "; its rows are filtered by " + note.get("keys") + " keys of joins" : "";
    return table + ": " + (note.get("served") instanceof String mode ? served(mode, note) : left(note)) + keys;
  }

  private static String served(String mode, Map<String, Object> note) {
    String by = note.get("asked") instanceof List<?> texts && !texts.isEmpty() ? " by " + joined(texts) : "";
    String from = note.containsKey("of") ? "; without the index: " + note.get("of") + " files" : "";
    if (mode.equals("rows")) {
      return note.get("rows") + " rows of " + note.get("files") + " files" + by + from;
    }
    return mode.equals("files")
        ? note.get("files") + " of " + note.get("of") + " files" + by + from
        : mode + " of all files" + by + ", and no file is read";
  }

  private static String left(Map<String, Object> note) {
    String reason = String.valueOf(note.get("reason"));
    String detail = String.valueOf(note.getOrDefault("detail", ""));
    String told = NEEDS.containsKey(reason) ? NEEDS.get(reason) + " " + detail : detail;
    return "left to Spark (" + reason + ")" + (told.isBlank() ? "" : ": " + told.strip());
  }

  /** Returns conditions as one; that a column has a value goes without saying beside another condition. */
  private static String joined(List<?> texts) {
    List<String> all = texts.stream().map(String::valueOf).toList();
    List<String> others = all.stream().filter(text -> !text.endsWith(" IS NOT NULL)")).toList();
    return String.join(" AND ", others.isEmpty() ? all : others);
  }
}
