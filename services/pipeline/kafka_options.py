"""The arguments `--bootstrap-controller` and `--command-config` of Kafka's tools, as options of the source `kraft`."""

from __future__ import annotations

import argparse
from pathlib import Path

from quorate.network.client_config import parse_bootstrap, parse_client_config
from quorate.properties import parse_properties

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
    properties = {}
    if file is not None:
        if Path(file).exists() and not Path(file).is_file():
            raise ValueError(f"--command-config {file}: it is no file")
        try:
            properties = parse_properties(Path(file).read_text("utf-8"))
            parse_client_config(properties)
        except ValueError as problem:
            raise ValueError(f"--command-config {file}: {problem}") from None
    return {f"{PREFIX}{name}": value for name, value in {**properties, "bootstrap.controllers": bootstrap}.items()}
