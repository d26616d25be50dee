"""`quorate pipeline`: hands over to the pipeline, a program of its own; Spark is no part of this library."""

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
"""Where the program lies beside this library, if this is a checkout."""


def hand_over(arguments: Sequence[str]) -> NoReturn:
    """Become `python -m services.pipeline`, its exit code this process's. Raises Misused if it is not here."""
    root = _found()
    if importlib.util.find_spec("pyspark") is None:
        raise Misused("the pipeline needs Spark, which is not installed here: `make spark-setup` brings it and a Java")
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    sys.stdout.flush()
    sys.stderr.flush()
    # One process instead of two: signals and exit codes are the program's own.
    os.execve(sys.executable, [sys.executable, "-m", MODULE, *arguments], {**os.environ, "PYTHONPATH": path})


def _found() -> str | None:
    """The directory that has to be on the path for the module; None if it can be imported already."""
    if importlib.util.find_spec("services") is not None and importlib.util.find_spec(MODULE) is not None:
        return None
    if (CHECKOUT / "services" / "pipeline" / "__main__.py").is_file():
        return str(CHECKOUT)
    raise Misused(
        f"the pipeline is not installed here: {MODULE} can not be imported; it is in Quorate's checkout, "
        f"not in the library: run this command there, or put the checkout on PYTHONPATH"
    )
