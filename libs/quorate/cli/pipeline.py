"""`quorate pipeline`: replaces this process by `services.pipeline`, a separate program that needs Spark."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from quorate.cli.failures import Misused

__all__ = ["hand_over"]

MODULE: Final = "services.pipeline"
CHECKOUT: Final = Path(__file__).resolve().parents[3]
"""The root of the source checkout, if this library runs from one; the pipeline is in its `services`."""


def hand_over(arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by `python -m services.pipeline` (exec), and does not return.

    Raises Misused if it or Spark is not installed; --help needs no Spark.
    """
    root = _found()
    # The pipeline's help imports no Spark.
    asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
    if importlib.util.find_spec("pyspark") is None and not asks_for_help:
        raise Misused("the pipeline needs Spark, which is not installed here: `make spark-setup` brings it and a Java")
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    sys.stdout.flush()
    sys.stderr.flush()
    # exec: signals and the exit code are the pipeline's own.
    os.execve(sys.executable, [sys.executable, "-m", MODULE, *arguments], {**os.environ, "PYTHONPATH": path})


def _found() -> str | None:
    """Returns the directory to add to PYTHONPATH; None if the pipeline is importable already. Raises Misused."""
    if importlib.util.find_spec("services") is not None and importlib.util.find_spec(MODULE) is not None:
        return None
    if (CHECKOUT / "services" / "pipeline" / "__main__.py").is_file():
        return str(CHECKOUT)
    raise Misused(
        f"the pipeline is not installed here: {MODULE} can not be imported; it is in Quorate's checkout, "
        f"not in the library: run this command there, or put the checkout on PYTHONPATH"
    )
