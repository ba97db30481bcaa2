package io.tailbit.spark;

import org.apache.spark.internal.config.ConfigEntry;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.TimestampType;

/**
 * The calendar by which a session reads days and times of files that do not name their own, as other engines write
 * them. The index has these values as the files do.
 *
 * In mode LEGACY Spark moves days before 1582-10-15 and times before 1900, none of them to this day or time.
 */
final class Calendar {
  /** Days and times before these may be moved. */
  static final int FIRST_DAY = -141_427;

  static final long FIRST_MICROSECOND = -2_208_988_800_000_000L;

  /** By how much at most a time next to the first that stays is moved: zones had the sun's time of their towns. */
  private static final long LONGEST_OFFSET = 2 * 86_400_000_000L;

  private Calendar() {}

  /** Tells whether the session moves old values of a type. */
  static boolean moves(DataType type) {
    return type instanceof DateType && isLegacy(SQLConf.PARQUET_REBASE_MODE_IN_READ())
        || type instanceof TimestampType
            && (isLegacy(SQLConf.PARQUET_REBASE_MODE_IN_READ()) || isLegacy(SQLConf.PARQUET_INT96_REBASE_MODE_IN_READ()));
  }

  /** Tells whether the session may read another value as this one, or this one as another. */
  static boolean mayMove(DataType type, Object value) {
    boolean isOld =
        type instanceof DateType && (Integer) value < FIRST_DAY
            || type instanceof TimestampType && (Long) value < FIRST_MICROSECOND + LONGEST_OFFSET;
    return isOld && moves(type);
  }

  private static boolean isLegacy(ConfigEntry<?> mode) {
    return SQLConf.get().getConf(mode).toString().equals("LEGACY");
  }
}
