package io.tailbit.spark;

import java.io.Serializable;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whether a value is among the keys of a join's other side.
 *
 * It is an `InSet` that shows no key: plans are explained and logged, and keys are cells of a table.
 */
final class KeySet extends Expression implements Serializable {
  private final Expression child;
  private final Set<Object> keys;

  /** Of the keys, which are many: expressions are hashed over and over. */
  private final int hash;

  KeySet(Expression child, Set<Object> keys) {
    this(child, keys, keys.hashCode());
  }

  private KeySet(Expression child, Set<Object> keys, int hash) {
    this.child = child;
    this.keys = keys;
    this.hash = hash;
  }

  int size() {
    return keys.size();
  }

  /** Stands for it where it is sent to executors, which have Spark's classes alone. */
  private Object writeReplace() {
    return new InSet(child, CollectionConverters.asScala(keys).toSet());
  }

  /** Returns what stands after a value for a number of keys, which are not shown. */
  static String told(int number) {
    return " IN (" + number + " keys of joins)";
  }

  @Override
  public Seq<Expression> children() {
    return IndexedAnswer.seq(List.of(child));
  }

  @Override
  public boolean nullable() {
    return child.nullable();
  }

  @Override
  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  @Override
  public Object eval(InternalRow row) {
    Object value = child.eval(row);
    return value == null ? null : keys.contains(value);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode of = child.genCode(context);
    String contains = context.addReferenceObj("keys", keys, Set.class.getName()) + ".contains(" + of.value() + ")";
    String text = "boolean " + code.value() + " = !" + of.isNull() + " && " + contains + ";";
    Block block = new CodeBlock(IndexedAnswer.seq(List.of(text)), IndexedAnswer.seq(List.of()));
    return new ExprCode(of.code().$plus(block), of.isNull(), code.value());
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new KeySet(children.head(), keys, hash);
  }

  @Override
  public String toString() {
    return child + told(keys.size());
  }

  @Override
  public String sql() {
    return child.sql() + told(keys.size());
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int place) {
    return place == 0 ? child : keys;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof KeySet;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof KeySet that && hash == that.hash && child.equals(that.child) && keys.equals(that.keys);
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + hash;
  }
}
