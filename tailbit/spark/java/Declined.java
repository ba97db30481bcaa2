package io.tailbit.spark;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * A scan that is left to Spark: a reason that does not change between releases, and a detail. `instead`: what the
 * helper has replied in place of what was asked, or null.
 */
final class Declined extends Exception {
  final String reason;
  final String detail;
  final transient JsonNode instead;

  Declined(String reason, String detail, JsonNode instead) {
    super(reason + ": " + detail, null, false, false);
    this.reason = reason;
    this.detail = detail;
    this.instead = instead;
  }

  Declined(String reason, String detail) {
    this(reason, detail, null);
  }

  /** Returns what a reply has declined. */
  static Declined of(JsonNode reply) {
    return new Declined(reply.path("declined").asText(), reply.path("detail").asText(), reply.get("instead"));
  }

  /** Returns the same without what was replied in its place. */
  Declined alone() {
    return instead == null ? this : new Declined(reason, detail);
  }

  Declined(String reason) {
    this(reason, "");
  }
}
