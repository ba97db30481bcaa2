"""The 22 statements of TPC-H over plain Delta tables, with the index and without, by one setting.

The tables are those of tpchgen-cli, the larger ones in eight files, in the order of their keys or of their
dates; every column that a statement filters or joins by is indexed. The answers are compared first. The last
line of a layout has the geometric mean and the worst of its ratios.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from dashboards import run
from index_of import Upkeep
from lineitem import folder

FILES = 8

INDEXED = {
    "region": ["r_regionkey", "r_name"],
    "nation": ["n_nationkey", "n_regionkey", "n_name"],
    "supplier": ["s_suppkey", "s_nationkey"],
    "customer": ["c_custkey", "c_nationkey", "c_mktsegment"],
    "part": ["p_partkey", "p_brand", "p_type", "p_size", "p_container"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_orderstatus", "o_orderpriority"],
    "lineitem": [
        *("l_orderkey", "l_partkey", "l_suppkey", "l_shipdate", "l_commitdate", "l_receiptdate"),
        *("l_shipmode", "l_returnflag", "l_linestatus", "l_shipinstruct", "l_quantity", "l_discount"),
    ],
}
"""The indexed columns of each table."""

DATES = {"orders": "o_orderdate", "lineitem": "l_shipdate"}
REVENUE = "sum(l_extendedprice * (1 - l_discount))"
VOLUME = "l_extendedprice * (1 - l_discount)"

STATEMENTS = {
    "Q1": f"SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), {REVENUE},"
    f" sum({VOLUME} * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)"
    " FROM lineitem WHERE l_shipdate <= DATE'1998-09-02' GROUP BY 1, 2 ORDER BY 1, 2",
    "Q2": "SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment"
    " FROM part, supplier, partsupp, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey"
    " AND p_size = 15 AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey"
    " AND r_name = 'EUROPE' AND ps_supplycost = (SELECT min(ps_supplycost)"
    " FROM partsupp, supplier, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey"
    " AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE')"
    " ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100",
    "Q3": f"SELECT l_orderkey, {REVENUE} revenue, o_orderdate, o_shippriority"
    " FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey"
    " AND l_orderkey = o_orderkey AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'"
    " GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey"
    " LIMIT 10",
    "Q4": "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= DATE'1993-07-01'"
    " AND o_orderdate < DATE'1993-10-01' AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey"
    " AND l_commitdate < l_receiptdate) GROUP BY 1 ORDER BY 1",
    "Q5": f"SELECT n_name, {REVENUE} revenue FROM customer, orders, lineitem, supplier, nation, region"
    " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey"
    " AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey"
    " AND r_name = 'ASIA' AND o_orderdate >= DATE'1994-01-01' AND o_orderdate < DATE'1995-01-01'"
    " GROUP BY n_name ORDER BY revenue DESC",
    "Q6": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE'1994-01-01'"
    " AND l_shipdate < DATE'1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "Q7": "SELECT supp_nation, cust_nation, l_year, sum(volume) FROM (SELECT n1.n_name supp_nation,"
    f" n2.n_name cust_nation, year(l_shipdate) l_year, {VOLUME} volume FROM supplier, lineitem, orders,"
    " customer, nation n1, nation n2 WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey"
    " AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey"
    " AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY'"
    " AND n2.n_name = 'FRANCE')) AND l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31')"
    " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    "Q8": "SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume)"
    f" FROM (SELECT year(o_orderdate) o_year, {VOLUME} volume, n2.n_name nation FROM part, supplier,"
    " lineitem, orders, customer, nation n1, nation n2, region WHERE p_partkey = l_partkey"
    " AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey"
    " AND c_nationkey = n1.n_nationkey"
    " AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey"
    " AND o_orderdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL')"
    " GROUP BY 1 ORDER BY 1",
    "Q9": f"SELECT nation, o_year, sum(amount) FROM (SELECT n_name nation, year(o_orderdate) o_year, {VOLUME}"
    " - ps_supplycost * l_quantity amount FROM part, supplier, lineitem, partsupp, orders, nation"
    " WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey"
    " AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey"
    " AND p_name LIKE '%green%') GROUP BY 1, 2 ORDER BY 1, 2 DESC",
    "Q10": f"SELECT c_custkey, c_name, {REVENUE} revenue, c_acctbal, n_name, c_address, c_phone, c_comment"
    " FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey"
    " AND o_orderdate >= DATE'1993-10-01' AND o_orderdate < DATE'1994-01-01' AND l_returnflag = 'R'"
    " AND c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address,"
    " c_comment ORDER BY revenue DESC, c_custkey LIMIT 20",
    "Q11": "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) value FROM partsupp, supplier, nation"
    " WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY ps_partkey"
    " HAVING sum(ps_supplycost * ps_availqty) > (SELECT sum(ps_supplycost * ps_availqty) * {fraction}"
    " FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey"
    " AND n_name = 'GERMANY') ORDER BY value DESC",
    "Q12": "SELECT l_shipmode, count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')),"
    " count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) FROM orders, lineitem"
    " WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate"
    " AND l_shipdate < l_commitdate AND l_receiptdate >= DATE'1994-01-01'"
    " AND l_receiptdate < DATE'1995-01-01' GROUP BY 1 ORDER BY 1",
    "Q13": "SELECT c_count, count(*) custdist FROM (SELECT c_custkey, count(o_orderkey) c_count"
    " FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'"
    " GROUP BY c_custkey) GROUP BY c_count ORDER BY custdist DESC, c_count DESC",
    "Q14": f"SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {VOLUME} ELSE 0 END) / {REVENUE}"
    " FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= DATE'1995-09-01'"
    " AND l_shipdate < DATE'1995-10-01'",
    "Q15": f"WITH revenue AS (SELECT l_suppkey supplier_no, {REVENUE} total_revenue FROM lineitem"
    " WHERE l_shipdate >= DATE'1996-01-01' AND l_shipdate < DATE'1996-04-01' GROUP BY l_suppkey)"
    " SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue"
    " WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)"
    " ORDER BY s_suppkey",
    "Q16": "SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) supplier_cnt FROM partsupp, part"
    " WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'"
    " AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier"
    " WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3",
    "Q17": "SELECT sum(l_extendedprice) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey"
    " AND p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < (SELECT 0.2 * avg(l_quantity)"
    " FROM lineitem WHERE l_partkey = p_partkey)",
    "Q18": "SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)"
    " FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem"
    " GROUP BY l_orderkey HAVING sum(l_quantity) > 300) AND c_custkey = o_custkey AND o_orderkey = l_orderkey"
    " GROUP BY 1, 2, 3, 4, 5 ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100",
    "Q19": f"SELECT {REVENUE} FROM lineitem, part WHERE p_partkey = l_partkey AND ("
    "(p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')"
    " AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5"
    " AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') OR"
    " (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')"
    " AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10"
    " AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') OR"
    " (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')"
    " AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15"
    " AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'))",
    "Q20": "SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey"
    " FROM partsupp WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')"
    " AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem"
    " WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey"
    " AND l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'))"
    " AND s_nationkey = n_nationkey AND n_name = 'CANADA' ORDER BY s_name",
    "Q21": "SELECT s_name, count(*) numwait FROM supplier, lineitem l1, orders, nation"
    " WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'"
    " AND l1.l_receiptdate > l1.l_commitdate AND EXISTS (SELECT * FROM lineitem l2"
    " WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) AND NOT EXISTS (SELECT *"
    " FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey"
    " AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'"
    " GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100",
    "Q22": "SELECT cntrycode, count(*), sum(c_acctbal) FROM (SELECT substring(c_phone, 1, 2) cntrycode,"
    " c_acctbal FROM customer WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')"
    " AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00"
    " AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))"
    " AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) GROUP BY 1 ORDER BY 1",
}
"""The statements with the parameters that the specification validates by; keys make each order whole."""


def tables(scale: float, layout: str) -> pathlib.Path:
    """Return the folder of the tables of a layout, with their indexes; made on first use."""
    path = folder() / f"tpch-{scale}-{layout.replace(' ', '-')}"
    if not (path / "made").exists():
        shutil.rmtree(path, ignore_errors=True)
        generated = path / "generated"
        cli = pathlib.Path(sys.executable).with_name("tpchgen-cli")
        command = [cli, "parquet", "-s", str(scale), "--output-dir", generated]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name in INDEXED:
            table = pq.read_table(generated / f"{name}.parquet")
            if layout == "by day" and name in DATES:
                texts = [
                    pa.string() if pa.types.is_string_view(type_) else type_ for type_ in table.schema.types
                ]
                table = table.cast(pa.schema(zip(table.column_names, texts, strict=True))).sort_by(
                    DATES[name]
                )
            size = -(-len(table) // (FILES if len(table) > 1000 else 1))
            for start in range(0, len(table), size):
                deltalake.write_deltalake(path / name, table.slice(start, size), mode="append")
        shutil.rmtree(generated)
        (path / "made").touch()
    for name, columns in INDEXED.items():
        Upkeep(path / name, columns).catch_up()
    return path


def text(scale: float, name: str) -> str:
    """Return a statement; a parameter of one depends on the scale."""
    return STATEMENTS[name].replace("{fraction}", f"{0.0001 / scale:.10f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    help_ = "the scale factor: 6 M rows of lineitem a unit"
    parser.add_argument("--scale", type=float, default=0.1, help=help_)
    run(
        parser,
        STATEMENTS,
        lambda options, name: text(options.scale, name),
        lambda options, layout: tables(options.scale, layout),
        INDEXED,
    )


if __name__ == "__main__":
    main()
