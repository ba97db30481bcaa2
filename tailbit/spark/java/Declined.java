package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * A scan that is left to Spark: a reason that does not change between releases, and a detail. `instead`: what the
 * helper has replied in place of what was asked, or null. `rows`: how many there are, and `bytes`: their share of
 * those of the table's files; -1 where that is not known.
 */
final class Declined extends Exception {
  final String reason;
  final String detail;
  final transient JsonNode instead;
  final long rows;
  final long bytes;

  private Declined(String reason, String detail, JsonNode instead, long rows, long bytes) {
    super(reason + ": " + detail, null, false, false);
    this.reason = reason;
    this.detail = detail;
    this.instead = instead;
    this.rows = rows;
    this.bytes = bytes;
  }

  Declined(String reason, String detail) {
    this(reason, detail, null, -1, -1);
  }

  /** Returns what a reply has declined. */
  static Declined of(JsonNode reply) {
    return new Declined(
        reply.path("declined").asText(), reply.path("detail").asText(), reply.get("instead"),
        reply.path("rows").asLong(-1), reply.path("bytes").asLong(-1));
  }

  /** Returns the same without what was replied in its place. */
  Declined alone() {
    return instead == null ? this : new Declined(reason, detail, null, rows, bytes);
  }

  Declined(String reason) {
    this(reason, "");
  }
}
