"""Static broker configs of a controller, from its file, its environment or `--set`; DescribeConfigs reports STATIC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.controller.configs.broker import DYNAMIC, file_faults
from quorate.controller.configs.broker_file import FILE_ONLY
from quorate.controller.secrets import is_secret
from quorate.metadata.configs import BROKER
from quorate.runtime.config import ConfigError, given_texts

NAMES: Final = frozenset(DYNAMIC.keys() | FILE_ONLY.keys())
"""The Kafka broker configs that the file may have beside the controller's own settings."""


def static_configs(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the given broker configs as text, without secrets, which no decision needs. Raises ConfigError."""
    given = given_texts(argv, environ, NAMES)
    faults = file_faults(given)
    if faults:
        raise ConfigError(faults)
    return {name: value for name, value in given.items() if not is_secret(BROKER, name)}
