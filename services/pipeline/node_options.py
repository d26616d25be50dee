"""The arguments that name a running cluster's nodes, and how to connect to them, as options of the source `kraft`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from quorate.network.client_config import parse_bootstrap, parse_client_config, read_client_properties
from quorate.pipeline.grpc_security import SECURITY, parse_security
from quorate.pipeline.log_files import parse_endpoints

__all__ = ["node_options"]

PREFIX = "kafka."
"""As in `services.pipeline.source.options`, which imports more than `--help` needs."""


def node_options(asked: argparse.Namespace) -> dict[str, str]:
    """Returns the options `endpoints` and `kafka.*`, with those of TLS and SASL; none without addresses.

    Raises ValueError, naming argument or property and never a value that may be secret; OSError for a missing file.
    """
    if asked.endpoints is not None:
        return _grpc(asked.endpoints, asked.command_config)
    if asked.bootstrap_controller is not None:
        return _kafka(asked.bootstrap_controller, asked.command_config)
    if asked.command_config is not None:
        raise ValueError("--command-config without --endpoints or --bootstrap-controller: nothing is connected to")
    return {}


def _grpc(endpoints: str, file: str | None) -> dict[str, str]:
    parse_endpoints(endpoints)
    properties = _properties(file, parse_security)
    return {"endpoints": endpoints, **{name: properties[name] for name in SECURITY if name in properties}}


def _kafka(bootstrap: str, file: str | None) -> dict[str, str]:
    try:
        parse_bootstrap(bootstrap)
    except ValueError as problem:
        raise ValueError(f"--bootstrap-controller: {problem}") from None
    properties = {**_properties(file, parse_client_config), "bootstrap.controllers": bootstrap}
    return {f"{PREFIX}{name}": value for name, value in properties.items()}


def _properties(file: str | None, parse: Callable[[Mapping[str, str]], object]) -> dict[str, str]:
    try:
        return {} if file is None else read_client_properties(Path(file), parse)
    except ValueError as problem:
        raise ValueError(f"--command-config {problem}") from None
