package io.tailbit.spark;

import java.util.function.Function;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** What Spark's trees are transformed by: a function of a node, whose null leaves the node as it is. */
final class NodeChange<N> extends AbstractPartialFunction<N, N> {
  private final Function<N, N> change;

  NodeChange(Function<N, N> change) {
    this.change = change;
  }

  @Override
  public boolean isDefinedAt(N node) {
    return true;
  }

  @Override
  @SuppressWarnings("unchecked")
  public <A extends N, B> B applyOrElse(A node, Function1<A, B> otherwise) {
    N changed = change.apply(node);
    return changed == null ? otherwise.apply(node) : (B) changed;
  }
}
