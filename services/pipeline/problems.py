"""The errors of a job as one line each, and which of them may be about the rows of one cluster."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from quorate.pipeline.files import is_url, local_path
from quorate.storage.files import NO_SPACE

__all__ = ["OF_ROWS", "OF_SPARK", "no_space", "words_of"]

OF_SPARK: Final = (PySparkException, Py4JJavaError)
"""Spark's errors; of the JVM's PySpark translates those with an error condition, and raises the others as they are."""
OF_ROWS: Final = (*OF_SPARK, ArithmeticError, ValueError, pa.ArrowException)
"""Errors of a job on rows that it cannot compute with: in Spark, in a Python worker, or in the driver."""
_PYTHON_ERROR: Final = re.compile(r"(quorate|services)(\.\w+)+: |[\w.]*(Error|Exception|Invalid): ")
"""How the last line of a Python traceback begins. Errors of our own have any name; the builtin ones no module."""
_CALLING: Final = re.compile(r"\AAn error occurred while calling .*\n: (java|org)(\.\w+)+: ")
"""The text that Py4J puts before the message of an error of the JVM."""
_NO_SPACE: Final = tuple(map(os.strerror, NO_SPACE))
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


def no_space(problem: Exception, places: Sequence[str]) -> str | None:
    """Returns the one line for a job that a full disk ended; None for any other problem.

    Neither the JVM nor a file that is being written says which disk it is: of `places`, the paths that the job writes
    to, the line names the one with the least room.
    """
    text = next((text for text in _NO_SPACE if text in str(problem)), None)
    if text is None:
        return None
    room = [(shutil.disk_usage(there).free, there) for place in places if (there := _existing(place)) is not None]
    least = "".join(f"; {there} has {free:,} bytes left" for free, there in sorted(room)[:1])
    return f"{text}{least}; make room and run it again"


def _existing(place: str) -> Path | None:
    """Returns the path, or what there is above it; None for a URL of a store."""
    if is_url(place):
        return None
    path = Path(local_path(place)).absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _first_words(text: str) -> str:
    """Returns our own Python error's message, else the last Python one's, else Spark's."""
    lines: Sequence[str] = [line.strip() for line in _CALLING.sub("", text).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("quorate.", "services.")) and _PYTHON_ERROR.match(line)]
    others = [line for line in lines if not line.startswith(_OF_THE_JVM) and _PYTHON_ERROR.match(line)]
    return (ours or others[-1:] or lines)[0]
