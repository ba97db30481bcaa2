#!/bin/sh
# A standalone cluster on this machine from the pip package: one master, two workers of one core.
# Usage: cluster.sh start|stop [FOLDER]     FOLDER keeps logs, pids and the workers' scratch files.
set -eu

action=${1:?start or stop}
folder=${2:-/tmp/tailbit-cluster}
host=${SPARK_MASTER_HOST:-127.0.0.1}
port=${SPARK_MASTER_PORT:-7077}
python=${PYSPARK_PYTHON:-python3}

launch() { # name, class, arguments
    name=$1
    shift
    SPARK_HOME=$spark_home SPARK_LOCAL_IP=$host PYSPARK_PYTHON=$python \
        nohup "$spark_home/bin/spark-class" "$@" >"$folder/$name.log" 2>&1 &
    echo $! >"$folder/$name.pid"
}

case $action in
start)
    mkdir -p "$folder"
    spark_home=$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
    launch master org.apache.spark.deploy.master.Master --host "$host" --port "$port" --webui-port 8080
    for worker in worker1 worker2; do
        launch $worker org.apache.spark.deploy.worker.Worker --host "$host" --cores 1 --memory 1g \
            --work-dir "$folder/$worker" "spark://$host:$port"
    done
    echo "spark://$host:$port"
    ;;
stop)
    for pid in "$folder"/*.pid; do
        kill "$(cat "$pid")" 2>/dev/null || true
        rm -f "$pid"
    done
    ;;
*)
    echo "start or stop" >&2
    exit 2
    ;;
esac
