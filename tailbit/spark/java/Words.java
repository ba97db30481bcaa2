package io.tailbit.spark;

import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A condition as text of SQL that means the same in every session, or nothing.
 *
 * The classes of Catalyst are on a list, since a name may be that of somebody's own function. Literals have their
 * types. What depends on the session's time zone, on a collation, on floating point or on the padding of CHAR is not
 * put into words. Nor is what depends on the calendar by which the session reads days and times, which moves old ones
 * alone, and none of them beyond a newer one.
 */
final class Words {
  private static final int MOST_ITEMS = 10_000;
  private static final int MOST_LETTERS = 100;
  private static final LocalDate FIRST = LocalDate.of(1, 1, 1);
  private static final LocalDate LAST = LocalDate.of(9999, 12, 31);
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");
  private static final Map<Class<?>, String> SIGNS =
      Map.of(
          EqualTo.class, "=",
          EqualNullSafe.class, "<=>",
          LessThan.class, "<",
          LessThanOrEqual.class, "<=",
          GreaterThan.class, ">",
          GreaterThanOrEqual.class, ">=");
  private static final Map<Class<?>, String> FUNCTIONS =
      Map.of(Lower.class, "lower", Upper.class, "upper", Length.class, "length");
  private static final Map<Class<?>, String> DATE_PARTS =
      Map.of(Year.class, "year", Month.class, "month", DayOfMonth.class, "day");
  private static final Map<Class<?>, String> SEARCHES =
      Map.of(StartsWith.class, "startswith", EndsWith.class, "endswith", Contains.class, "contains");

  /** The columns that the conditions put into words read, as text. */
  final Set<String> columns = new TreeSet<>();

  private final StructType schema;
  private final AttributeSet own;
  private final String table;

  /**
   * `own`: the columns of the scan. `table`: the last part of the root, which the parser of the text takes for the
   * table's own name.
   */
  Words(StructType schema, AttributeSet own, String table) {
    this.schema = schema;
    this.own = own;
    this.table = table;
  }

  /** Returns the text of a condition. */
  String of(Expression condition) throws Declined {
    if (condition instanceof And both) {
      return "(" + of(both.left()) + " AND " + of(both.right()) + ")";
    }
    if (condition instanceof Or either) {
      return "(" + of(either.left()) + " OR " + of(either.right()) + ")";
    }
    if (condition instanceof Not not) {
      return "(NOT " + of(not.child()) + ")";
    }
    if (condition instanceof IsNull none) {
      return "(" + value(none.child()) + " IS NULL)";
    }
    if (condition instanceof IsNotNull some) {
      return "(" + value(some.child()) + " IS NOT NULL)";
    }
    String sign = SIGNS.get(condition.getClass());
    if (sign != null && condition instanceof BinaryComparison comparison) {
      checkCalendar(comparison.left(), comparison.right());
      return "(" + value(comparison.left()) + " " + sign + " " + value(comparison.right()) + ")";
    }
    String search = SEARCHES.get(condition.getClass());
    if (search != null && condition instanceof StringPredicate predicate) {
      return search + "(" + value(predicate.left()) + ", " + value(predicate.right()) + ")";
    }
    if (condition instanceof Like like && like.right() instanceof Literal && like.escapeChar() == '\\') {
      checkPattern(like.right().toString());
      return "(" + value(like.left()) + " LIKE " + value(like.right()) + ")";
    }
    if (condition instanceof In in) {
      return in(in.value(), CollectionConverters.asJava(in.list()));
    }
    if (condition instanceof InSet in) {
      return in(in.child(), in.child().dataType(), CollectionConverters.asJava(in.hset()));
    }
    return value(condition);
  }

  /** Refuses characters beyond U+FFFF in a pattern: Spark before 4.2 takes each for two, which match nothing. */
  private static void checkPattern(String pattern) throws Declined {
    if (pattern.codePoints().anyMatch(Character::isSupplementaryCodePoint)) {
      throw new Declined("not-in-words", "LIKE of characters beyond U+FFFF");
    }
  }

  private String in(Expression value, DataType type, Collection<Object> items) throws Declined {
    List<Expression> literals = new ArrayList<>();
    for (Object item : items) {
      literals.add(new Literal(item, type));
    }
    return in(value, literals);
  }

  private String in(Expression value, Collection<Expression> items) throws Declined {
    if (items.isEmpty() || items.size() > MOST_ITEMS) {
      throw new Declined("not-in-words", "a list of " + items.size());
    }
    List<String> texts = new ArrayList<>();
    for (Expression item : items) {
      checkCalendar(value, item);
      texts.add(item instanceof Literal literal && literal.value() == null ? "NULL" : value(item));
    }
    return "(" + value(value) + " IN (" + String.join(", ", texts) + "))";
  }

  private String value(Expression value) throws Declined {
    if (value instanceof Literal literal) {
      return literal(literal);
    }
    checkType(value.dataType());
    if (value instanceof AttributeReference || value instanceof GetStructField) {
      String name = name(value);
      columns.add(name.replace("`", ""));
      return name;
    }
    String function = FUNCTIONS.get(value.getClass());
    if (function != null && isText(only(value).dataType())) {
      if (!(value instanceof Length)) {
        Letters.check(value, function);
      }
      return function + "(" + value(only(value)) + ")";
    }
    String part = DATE_PARTS.get(value.getClass());
    if (part != null && only(value).dataType() instanceof DateType) {
      checkCalendar(only(value).dataType());
      return part + "(" + value(only(value)) + ")";
    }
    if (value instanceof Cast cast && widens(cast.child().dataType(), cast.dataType())) {
      return "CAST(" + value(cast.child()) + " AS " + cast.dataType().sql() + ")";
    }
    throw new Declined("not-in-words", shortened(value));
  }

  /** Returns an expression as people write it, without the names of tables before those of columns. */
  private static String shortened(Expression value) {
    String text = value.sql();
    for (Attribute column : CollectionConverters.asJava(value.references().toSeq())) {
      text = text.replace(column.sql(), column.name());
    }
    return text.length() <= MOST_LETTERS ? text : text.substring(0, MOST_LETTERS) + "…";
  }

  /** Refuses two columns of days or times: old ones that differ in the file may be read as the same. */
  private void checkCalendar(Expression one, Expression other) throws Declined {
    if (!(one instanceof Literal) && !(other instanceof Literal)) {
      checkCalendar(one.dataType());
    }
  }

  /** Refuses what is told of any day or time, where the session reads old ones by the Julian calendar. */
  static void checkCalendar(DataType type) throws Declined {
    if (Calendar.moves(type)) {
      throw new Declined("not-in-words", type.simpleString() + " by the Julian calendar");
    }
  }

  private static Expression only(Expression function) {
    return CollectionConverters.asJava(function.children()).get(0);
  }

  private static boolean isText(DataType type) {
    return DataTypes.StringType.equals(type);
  }

  /** Tells whether a type is an integer and another one a longer one. */
  static boolean widens(DataType from, DataType to) {
    int narrow = digits(from);
    return narrow > 0 && narrow < digits(to);
  }

  private static int digits(DataType type) {
    return type instanceof ByteType ? 1 : type instanceof ShortType ? 2 : type instanceof IntegerType ? 3
        : type instanceof LongType ? 4 : 0;
  }

  private static void checkType(DataType type) throws Declined {
    boolean known =
        type instanceof BooleanType || digits(type) > 0 || type instanceof DecimalType || isText(type)
            || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType;
    if (!known) {
      throw new Declined("not-in-words", "type " + type.simpleString());
    }
    checkConversion(type);
  }

  /** Refuses times of a session that may read other ones from INT96 of a file than stand there. */
  private static void checkConversion(DataType type) throws Declined {
    if (type instanceof TimestampType && SQLConf.get().isParquetINT96TimestampConversion()) {
      throw new Declined("not-in-words", "times that int96TimestampConversion moves");
    }
  }

  /** Returns the quoted name of a column of the table, or of a field in structs. */
  private String name(Expression column) throws Declined {
    if (column instanceof GetStructField field) {
      if (field.child() instanceof AttributeReference struct && struct.name().equalsIgnoreCase(table)) {
        throw new Declined("not-in-words", struct.name() + " is the name of the table too");
      }
      return name(field.child()) + "." + quoted(((StructType) field.child().dataType()).fields()[field.ordinal()].name());
    }
    if (!(column instanceof AttributeReference attribute)) {
      throw new Declined("not-in-words", shortened(column));
    }
    var metadata = attribute.metadata();
    if (!own.contains(attribute) || metadata.contains("__metadata_col") 
        || !schema.getFieldIndex(attribute.name()).isDefined()) {
      throw new Declined("not-in-words", attribute.name() + " is no column of the table");
    }
    var written = schema.apply(attribute.name()).metadata();
    if (metadata.contains("__CHAR_VARCHAR_TYPE_STRING") || written.contains("__CHAR_VARCHAR_TYPE_STRING")) {
      throw new Declined("not-in-words", attribute.name() + " is CHAR or VARCHAR");
    }
    return quoted(attribute.name());
  }

  /** Returns the quoted name of a column whose values are shown, which is of the type that the table has. */
  String shown(AttributeReference column) throws Declined {
    String name = name(column);
    checkConversion(column.dataType());
    if (!schema.apply(column.name()).dataType().equals(column.dataType())) {
      throw new Declined("not-in-words", column.name() + " has another type in the table");
    }
    return name;
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  private static String literal(Literal literal) throws Declined {
    DataType type = literal.dataType();
    Object value = literal.value();
    checkType(type);
    if (value == null) {
      throw new Declined("not-in-words", "NULL");
    }
    if (Calendar.mayMove(type, value)) {
      throw new Declined("not-in-words", "an old " + type.simpleString() + " by the Julian calendar");
    }
    if (type instanceof BooleanType) {
      return (Boolean) value ? "TRUE" : "FALSE";
    }
    if (type instanceof DecimalType) {
      return number(((Decimal) value).toJavaBigDecimal().toPlainString(), "BD");
    }
    if (type instanceof DateType) {
      return "DATE'" + checked(LocalDate.ofEpochDay((Integer) value)) + "'";
    }
    if (type instanceof TimestampType) {
      return "TIMESTAMP'" + time((Long) value) + "Z'";
    }
    if (type instanceof TimestampNTZType) {
      return "TIMESTAMP_NTZ'" + time((Long) value) + "'";
    }
    if (isText(type)) {
      if (!UTF8String.fromString(value.toString()).equals(value)) {
        throw new Declined("not-in-words", "bytes that are no text");
      }
      return "'" + value.toString().replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
    return number(value.toString(), Map.of(1, "Y", 2, "S", 3, "", 4, "L").get(digits(type)));
  }

  private static String number(String digits, String suffix) {
    return digits.startsWith("-") ? "(" + digits + suffix + ")" : digits + suffix;
  }

  private static String time(long micros) throws Declined {
    Instant instant =
        Instant.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), Math.floorMod(micros, 1_000_000L) * 1000);
    LocalDateTime time = LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
    checked(time.toLocalDate());
    return time.format(TIME);
  }

  private static LocalDate checked(LocalDate date) throws Declined {
    if (date.isBefore(FIRST) || date.isAfter(LAST)) {
      throw new Declined("not-in-words", "year " + date.getYear());
    }
    return date;
  }
}
