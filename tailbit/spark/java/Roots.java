package io.tailbit.spark;

import java.net.URI;
import java.util.Map;
import org.apache.hadoop.fs.Path;

/** The root of a table as tailbit names it. */
final class Roots {
  private static final Map<String, String> SCHEMES =
      Map.of("s3a", "s3", "s3", "s3", "gs", "gs", "abfss", "abfss", "abfs", "abfs");

  private Roots() {}

  static String of(Path path) throws Declined {
    URI uri = path.toUri();
    String scheme = uri.getScheme();
    if (scheme == null || scheme.equals("file")) {
      return uri.getPath();
    }
    if (!SCHEMES.containsKey(scheme)) {
      throw new Declined("no-table", "the scheme " + scheme + ": is not read");
    }
    return SCHEMES.get(scheme) + "://" + uri.getRawAuthority() + uri.getPath();
  }

  /** Tells whether a root is that of a path, which somebody has written as Spark takes it, or of a folder below. */
  static boolean isAtOrBelow(String root, String path) {
    try {
      String folder = of(new Path(path)).replaceAll("/+$", "");
      return root.equals(folder) || root.startsWith(folder + "/");
    } catch (Declined | IllegalArgumentException noPath) {
      return false;
    }
  }
}
