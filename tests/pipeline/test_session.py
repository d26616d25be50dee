"""A local session: its workers import what is installed, and its driver asks the JVM for a name once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_python_of_workers_leaves_zip_files_out_and_keeps_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from services.pipeline.session import WORKER_PYTHON

    places = ["/opt/spark/python/lib/pyspark.zip", str(tmp_path / "a b"), "/opt/py4j-src.zip", str(tmp_path / "c")]
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sys.argv[1:], sep='\\n')"
    told = subprocess.run(
        [WORKER_PYTHON, "-c", program, "one argument"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(places), "WORKER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [f"{tmp_path}/a b:{tmp_path}/c", sys.executable, "['one argument']"] == told.stdout.splitlines()


def test_workers_elsewhere_and_those_of_another_spark_are_asked_for_by_this_python() -> None:
    pytest.importorskip("pyspark")
    from services.pipeline.session import WORKER_PYTHON, environment

    java = {"JAVA_HOME": "/opt/java"}

    assert str(WORKER_PYTHON) == environment(java)["PYSPARK_PYTHON"]
    assert sys.executable == environment(java)["WORKER_PYTHON"]
    assert sys.executable == environment(java, locally=False)["PYSPARK_PYTHON"]
    assert sys.executable == environment({**java, "SPARK_HOME": "/opt/spark"})["PYSPARK_PYTHON"]
    assert "PYSPARK_PYTHON" not in environment({**java, "PYSPARK_PYTHON": "/opt/python"})


def test_a_worker_imports_pyspark_from_where_the_driver_does(spark: SparkSession) -> None:
    import pyspark

    def place(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert [pyspark.__file__] == spark.sparkContext.parallelize([0], 1).map(place).collect()


def test_a_client_may_have_plans_of_more_levels_than_protobuf_decodes_by_itself() -> None:
    """In a process of its own, as it is for the whole process."""
    pytest.importorskip("pyspark")
    program = """
from google.protobuf.struct_pb2 import Value
from services.pipeline.remote import allow_deep_plans

allow_deep_plans()
plan = Value(number_value=1)
for _ in range(1_000):
    below, plan = plan, Value()
    plan.list_value.values.add().CopyFrom(below)
assert plan == Value.FromString(plan.SerializeToString())
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_of_the_jvm_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import JavaClient
    from pyspark.sql import functions as fn

    sent: list[str] = []
    send = JavaClient.send_command

    def counted(client: object, command: str, *rest: object, **named: object) -> object:
        sent.append(command)
        return send(client, command, *rest, **named)

    def asked() -> int:
        return sum(command.startswith(("r\nu", "r\nm")) for command in sent)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    columns = [fn.when(fn.col("id") > number, fn.lit(number)) for number in range(20)]
    first = asked()
    columns += [fn.when(fn.col("id") > number, fn.lit(number)) for number in range(20)]

    assert first < 10
    assert first == asked()
    assert 19 == sum(value is not None for value in spark.range(19, 20).select(*columns[:20]).first() or ())


def test_no_text_of_each_operator_is_written_for_a_page_that_nobody_serves(spark: SparkSession) -> None:
    assert [3] == [row[0] for row in spark.range(3).selectExpr("sum(id)").collect()]
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    described = spark._jsparkSession.sharedState().statusStore().executionsList().last().physicalPlanDescription()

    assert "== Physical Plan ==" in described
    assert "Input [" not in described
