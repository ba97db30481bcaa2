package io.tailbit.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The upper and lower case of letters in a session, compared with tailbit's.
 *
 * They depend on the locale of the JVM (Turkish has an I of its own), on the Unicode of Java's release and of ICU's,
 * and on a setting that says which of both is asked. So the session's own expression is evaluated for every letter,
 * once for each setting, and the process beside the driver says whether it has the same letters.
 */
final class Letters {
  private static final String ICU = "spark.sql.icu.caseMappings.enabled";
  private static final ObjectMapper JSON = new ObjectMapper();
  /** The planes of Unicode that have letters of two cases. */
  private static final int MOST = 0x20000;
  /** Where a letter's other case depends on the letters beside it. */
  private static final List<String> IN_CONTEXT =
      List.of("\u0391\u03a3", "\u0391\u03a3\u0391", "\u0391\u03a3.", "\u0391\u0301\u03a3", "I\u0307", "i\u0307", "\u012e\u0300", "J\u0301");
  /** In milliseconds: comparing is no question of a query, which waits for its own budget. */
  private static final long PATIENCE = 10_000;
  /** In milliseconds, of which a query waits for a share. */
  private static final double PATIENCE_OF_QUERY = 300;

  private static final Map<List<String>, CompletableFuture<String>> COMPARED = new ConcurrentHashMap<>();

  private Letters() {}

  /** Refuses upper or lower case where the session's letters are not known to be tailbit's. */
  static void check(Expression function, String name) throws Declined {
    if (executorsMayDiffer()) {
      throw new Declined("not-in-words", name + " of executors with a locale of their own");
    }
    SQLConf conf = SQLConf.get();
    String icu = conf.contains(ICU) ? conf.getConfString(ICU) : "";
    List<String> key = List.of(name, icu, Locale.getDefault().toString(), Settings.python());
    CompletableFuture<String> known = COMPARED.get(key);
    if (known == null) {
      ObjectNode question = question(function, name);
      known = COMPARED.computeIfAbsent(key, setting -> CompletableFuture.supplyAsync(() -> differing(question)));
    }
    try {
      String differs = known.get(Settings.budget(PATIENCE_OF_QUERY), TimeUnit.MILLISECONDS);
      if (!differs.isEmpty()) {
        throw new Declined("not-in-words", name + " has other letters here: " + differs);
      }
    } catch (TimeoutException late) {
      throw new Declined("not-in-words", name + ": its letters are being compared");
    } catch (ExecutionException wrong) {
      COMPARED.remove(key, known);
      throw new Declined("not-in-words", name + ": " + wrong.getCause().getMessage());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new Declined("helper-interrupted");
    }
  }

  /** Tells whether settings give the JVMs of executors a locale that the driver's may not have. */
  private static boolean executorsMayDiffer() {
    var conf = SparkSession.active().sparkContext().getConf();
    String options = conf.get("spark.executor.defaultJavaOptions", "") + conf.get("spark.executor.extraJavaOptions", "");
    boolean named = conf.contains("spark.executorEnv.LANG") || conf.contains("spark.executorEnv.LC_ALL");
    return !SparkSession.active().sparkContext().isLocal() && (named || options.contains("-Duser."));
  }

  /** Returns the example by which the process has other letters, or nothing. */
  private static String differing(ObjectNode question) {
    try {
      return Helper.askForData(question, PATIENCE).head().path("differs").asText();
    } catch (Declined declined) {
      throw new IllegalStateException(declined.getMessage(), declined);
    }
  }

  /** Returns a question with everything whose other case is not itself, as the session has it. */
  private static ObjectNode question(Expression function, String name) {
    StringBuilder all = new StringBuilder();
    for (int letter = 0; letter < MOST; letter++) {
      boolean isLetter = letter != '\n' && (letter < Character.MIN_SURROGATE || letter > Character.MAX_SURROGATE);
      all.append(isLetter ? Character.toString(letter) : "").append(isLetter ? "\n" : "");
    }
    IN_CONTEXT.forEach(text -> all.append(text).append('\n'));
    List<Expression> child = List.of(new Literal(UTF8String.fromString(all.toString()), DataTypes.StringType));
    Expression cased = function.withNewChildren(CollectionConverters.asScala(child).toIndexedSeq());
    String[] before = all.toString().split("\n");
    String[] after = cased.eval(InternalRow.empty()).toString().split("\n");
    ObjectNode question = JSON.createObjectNode().put("want", "letters").put("root", "letters").put("table", name);
    question.put("version", 0).put("function", name).put("most", MOST);
    ObjectNode letters = question.putObject("letters");
    for (int number = 0; number < before.length; number++) {
      if (number >= after.length || !before[number].equals(after[number]) || number >= before.length - IN_CONTEXT.size()) {
        letters.put(before[number], number < after.length ? after[number] : "");
      }
    }
    return question;
  }
}
