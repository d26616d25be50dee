"""Every value that we call Kafka's default is what the ConfigDefs of a Kafka release say, and differences are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from quorate.runtime.settings.config import settings_table
from tests.interop.kafka.release import absent
from tests.interop.test_configs import released

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

PAGE: Final = Path(__file__).parents[2] / "services" / "quorum" / "SETTINGS.md"
ROW: Final = re.compile(r"^\| `([a-z.]+)` \| (\S+) \| (\S+) \| (.*)\|$", re.MULTILINE)
DEFAULT: Final = re.compile(r"^([a-z.]+)  \[(\S+)(?: \S+)?\]  ", re.MULTILINE)
NONE: Final = "–"
WITHOUT: Final = ("required", "empty")

OF_CLIENTS: Final = {"retry.backoff.max.ms": "1000"}
"""CommonClientConfigs has it, which the controllers' ConfigDef does not take in; QuorumConfig's text speaks of it."""
OURS: Final = {
    "node.id": "0 at services of which there is one copy; Kafka has -1 for not set",
    "listeners": "a service has no default port",
}
"""Settings of Kafka's name with another default of ours that no table of the services has, and why."""


def kafkas(name: str) -> str | None:
    """The default in the release; None if it has no such setting."""
    found = [released().get((of, name)) for of in ("broker", "topic")]
    said = [each["default"] for each in found if each is not None]
    return OF_CLIENTS.get(name) if not said else str(said[0])


def in_force() -> Iterator[tuple[str, str]]:
    """Every default of every service, as `--help` prints it."""
    for service in ("quorum", "controller", "heartbeat", "placer", "observer"):
        config = getattr(import_module(f"services.{service}.config"), f"{service.capitalize()}Config")
        yield from (found for found in DEFAULT.findall(settings_table(config)) if found[1] not in WITHOUT)


def test_what_the_table_calls_kafkas_default_is() -> None:
    told = {name: said for name, said, _, _ in ROW.findall(PAGE.read_text())}

    assert len(told) > 15
    assert {name: kafkas(name) or NONE for name in told} == told


def test_a_default_that_is_not_kafkas_is_told_as_ours() -> None:
    told = {name for name, said, ours, _ in ROW.findall(PAGE.read_text()) if said != ours}
    other = {name for name, ours in in_force() if kafkas(name) not in (None, ours)}

    assert other - told == OURS.keys() & other


@pytest.mark.parametrize("name", ["broker.session.timeout.ms", "num.partitions", "delegation.token.max.lifetime.ms"])
def test_the_release_says_what_is_compared(name: str) -> None:
    """A test of names that nobody has would pass."""
    assert kafkas(name) == dict(in_force())[name]
