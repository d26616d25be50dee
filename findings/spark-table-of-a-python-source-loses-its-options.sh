#!/usr/bin/env bash
# Spark 4.3.0 (PySpark): the reader of a table of a Python data source gets none of the table's options.
#
# CREATE TABLE … USING name OPTIONS (path '…') is accepted for a data source that is written in Python (SPARK-44076), and
# the source's schema() is asked with the options. SELECT then calls reader() with an empty dictionary: neither
# the options of the statement nor the table's location are in it. A source that needs an option fails at each query, or
# reads something else, if the option has a default. A temporary view with the same clause hands its options on, and so does
# spark.read.format(name).options(…).
#
# Seen:
#   reader of the read: colour=red, path=/logs
#   reader of the view: colour=red, path=/logs
#   reader of the table: no options
#
# Exits with 0 while this holds, and with 1 if it has changed. Takes a minute, and downloads half a gigabyte; needs a
# Java 17 or newer.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.3.0 pyarrow==22.0.0
cd "$directory"
export PYSPARK_PYTHON="$directory/venv/bin/python" SPARK_LOCAL_IP=127.0.0.1

cat > options.py <<'PYTHON'
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def __init__(self, options):
        self.options = options

    def read(self, partition):
        yield (", ".join(f"{name}={value}" for name, value in sorted(self.options.items())),)


class Told(DataSource):
    @classmethod
    def name(cls):
        return "told"

    def schema(self):
        return "options string"

    def reader(self, schema):
        return Reader(dict(self.options))


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Told)
clause = "USING told OPTIONS (path '/logs', colour 'red')"
spark.sql(f"CREATE TEMPORARY VIEW a_view {clause}")
spark.sql(f"CREATE TABLE a_table {clause}")
read = spark.read.format("told").option("colour", "red").load("/logs")
found = {"read": read, "view": spark.table("a_view"), "table": spark.table("a_table")}
told = {name: frame.collect()[0][0] for name, frame in found.items()}
for name, options in told.items():
    print(f"reader of the {name}: {options or 'no options'}")
holds = all("colour=red" in told[name] for name in ("read", "view")) and "colour" not in told["table"]
raise SystemExit(0 if holds else 1)
PYTHON

"$directory/venv/bin/python" options.py 2> errors || { code=$?; tail -n 5 errors; exit "$code"; }
