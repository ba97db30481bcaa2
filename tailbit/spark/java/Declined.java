package io.tailbit.spark;

/** A scan that is left to Spark: a reason that does not change between releases, and a detail. */
final class Declined extends Exception {
  final String reason;
  final String detail;

  Declined(String reason, String detail) {
    super(reason + ": " + detail, null, false, false);
    this.reason = reason;
    this.detail = detail;
  }

  Declined(String reason) {
    this(reason, "");
  }
}
