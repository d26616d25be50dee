"""The errors of a job as one line each, and which of them may be about the rows of one cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

__all__ = ["OF_ROWS", "OF_SPARK", "words_of"]

OF_SPARK: Final = (PySparkException, Py4JJavaError)
"""Spark's errors; of the JVM's PySpark translates those with an error condition, and raises the others as they are."""
OF_ROWS: Final = (*OF_SPARK, ArithmeticError, ValueError, pa.ArrowException)
"""What rows that a job cannot compute with make it fail by: in Spark, in a Python worker, or in the driver."""
_PYTHON_ERROR: Final = re.compile(r"(quorate|services)(\.\w+)+: |[\w.]*(Error|Exception|Invalid): ")
"""How the last line of a Python traceback begins. Errors of our own have any name; the builtin ones no module."""
_CALLING: Final = re.compile(r"\AAn error occurred while calling .*\n: (java|org)(\.\w+)+: ")
"""What Py4J puts before the message of an error of the JVM."""
_OF_THE_JVM: Final = ("org.", "java.", "scala.", "Caused by")


def words_of(problem: Exception) -> str:
    """Returns the error message as one line, without stacks."""
    if isinstance(problem, OF_SPARK):
        return _first_words(str(problem))
    if isinstance(problem, (Py4JError, ConnectionError)):
        return "the JVM of Spark's driver is gone: it was killed (by the kernel for its memory?), or it crashed"
    if isinstance(problem, (ArithmeticError, LookupError, NotImplementedError, OSError)):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"


def _first_words(text: str) -> str:
    """Returns our own Python error's message, else the last Python one's, else Spark's."""
    lines: Sequence[str] = [line.strip() for line in _CALLING.sub("", text).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("quorate.", "services.")) and _PYTHON_ERROR.match(line)]
    others = [line for line in lines if not line.startswith(_OF_THE_JVM) and _PYTHON_ERROR.match(line)]
    return (ours or others[-1:] or lines)[0]
