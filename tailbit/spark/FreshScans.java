package tailbit;

import java.lang.reflect.Field;
import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * Gives each optimized plan its own read plan of a tailbit relation that names no version.
 *
 * Spark keeps the partitions of a Python data source in the relation's PythonDataSourceV2 object, which views and
 * DataFrames hold for ever. Scans are made anew for each plan; this rule points them to a copy of that object, whose
 * partitions are not yet planned. All scans of one relation in one plan, in subqueries too, share one copy, so they
 * read one version. The rule runs after subqueries are optimized and before anything is planned physically.
 */
public class FreshScans extends Rule {
  public TreeNode apply(TreeNode plan) {
    Map copies = new IdentityHashMap();
    renew((LogicalPlan) plan, copies);
    Iterator subqueries = ((LogicalPlan) plan).subqueriesAll().iterator();
    while (subqueries.hasNext()) {
      renew((LogicalPlan) subqueries.next(), copies);
    }
    return plan;
  }

  private static void renew(LogicalPlan plan, Map copies) {
    Iterator leaves = ((Seq) plan.collectLeaves()).iterator();
    while (leaves.hasNext()) {
      Object leaf = leaves.next();
      if (leaf instanceof DataSourceV2ScanRelation) {
        Object scan = ((DataSourceV2ScanRelation) leaf).scan();
        if (scan instanceof PythonScan && followsHead(scan)) {
          Object source = get(PythonScan.class, "ds", scan);
          if (!copies.containsKey(source)) {
            copies.put(source, unplanned(source));
          }
          set(PythonScan.class, "ds", scan, copies.get(source));
        }
      }
    }
  }

  private static boolean followsHead(Object scan) {
    CaseInsensitiveStringMap options = (CaseInsensitiveStringMap) get(PythonScan.class, "options", scan);
    return "tailbit".equalsIgnoreCase((String) get(PythonScan.class, "shortName", scan))
        && !options.containsKey("version") && !options.containsKey("asOf");
  }

  private static Object unplanned(Object source) {
    PythonDataSourceV2 copy = new PythonDataSourceV2();
    copy.setShortName("tailbit");
    Object created = get(PythonDataSourceV2.class, "dataSourceInPython", source);
    set(PythonDataSourceV2.class, "dataSourceInPython", copy, created);
    return copy;
  }

  private static Object get(Class owner, String name, Object object) {
    try {
      return accessible(owner, name).get(object);
    } catch (ReflectiveOperationException wrong) {
      throw new IllegalStateException(wrong);
    }
  }

  private static void set(Class owner, String name, Object object, Object value) {
    try {
      accessible(owner, name).set(object, value);
    } catch (ReflectiveOperationException wrong) {
      throw new IllegalStateException(wrong);
    }
  }

  private static Field accessible(Class owner, String name) throws ReflectiveOperationException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
