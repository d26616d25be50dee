"""The arguments `--bootstrap-controller` and `--command-config` of Kafka's tools, as options of the source `kraft`."""

from __future__ import annotations

import argparse
from pathlib import Path

from quorate.network.client_config import parse_bootstrap, read_client_properties

__all__ = ["kafka_options"]

PREFIX = "kafka."
"""As in `services.pipeline.source.options`, which imports more than `--help` needs."""


def kafka_options(asked: argparse.Namespace) -> dict[str, str]:
    """Returns the options `kafka.*`; none without --bootstrap-controller.

    Raises ValueError, naming argument or property and never a value that may be secret; OSError for a missing file.
    """
    bootstrap, file = asked.bootstrap_controller, asked.command_config
    if bootstrap is None:
        if file is not None:
            raise ValueError("--command-config without --bootstrap-controller: there is nothing to connect to")
        return {}
    try:
        parse_bootstrap(bootstrap)
    except ValueError as problem:
        raise ValueError(f"--bootstrap-controller: {problem}") from None
    try:
        properties = {} if file is None else read_client_properties(Path(file))
    except ValueError as problem:
        raise ValueError(f"--command-config {problem}") from None
    return {f"{PREFIX}{name}": value for name, value in {**properties, "bootstrap.controllers": bootstrap}.items()}
