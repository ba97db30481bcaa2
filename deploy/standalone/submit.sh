#!/bin/sh
# Run the indexer of one table on a standalone cluster, through spark-submit.
# Usage: submit.sh spark://host:7077 TABLE [options of `tailbit run`]
set -eu

master=${1:?spark://host:port}
table=${2:?table}
shift 2
here=$(dirname "$0")
python=${PYSPARK_PYTHON:-python3}
PYSPARK_PYTHON=$("$python" -c 'import sys; print(sys.executable)')
export PYSPARK_PYTHON
spark_home=$("$PYSPARK_PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')

# exec: a signal to this process reaches Spark.
exec "$spark_home/bin/spark-submit" --master "$master" --deploy-mode client \
    --properties-file "$here/spark-defaults.conf" "$here/submit.py" run "$table" "$@"
