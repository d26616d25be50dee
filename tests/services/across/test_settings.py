"""The page's table of settings is true: every setting with a default is in it, with the default that is in force."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from quorate.runtime.settings.config import settings_table
from services.controller.config import ControllerConfig as ControllerConfig
from services.quorum.config import QuorumConfig as QuorumConfig

PAGE = Path(__file__).parents[3] / "services" / "quorum" / "SETTINGS.md"
ROW = re.compile(r"\| `([a-z.]+)` \| (\S+) \| (\S+) \| (.*)\|")
DEFAULT = re.compile(r"^([a-z.]+)  \[(\S+)(?: \S+)?\]  ", re.MULTILINE)
NONE = "–"


def told() -> dict[str, tuple[str, str, str]]:
    """Kafka's default, ours and why, by setting."""
    return {name: (kafkas, ours, why.strip()) for name, kafkas, ours, why in ROW.findall(PAGE.read_text())}


def in_force(config: type) -> dict[str, str]:
    """The default of every setting that has one, as `--help` prints it."""
    found = dict(DEFAULT.findall(settings_table(config)))
    assert len(found) == len(fields(config))
    return {name: default for name, default in found.items() if default not in ("required", "empty")}


def test_every_default_of_the_quorum_is_told_as_it_is() -> None:
    expected = in_force(QuorumConfig)

    assert expected == {name: told()[name][1] for name in expected}


def test_what_is_told_of_other_settings_is_true_too() -> None:
    known = in_force(ControllerConfig)
    others = {name: ours for name, (_, ours, _) in told().items() if name not in in_force(QuorumConfig)}

    assert others == {name: known.get(name, NONE) for name in others}


def test_what_is_not_as_in_kafka_says_why() -> None:
    for name, (kafkas, ours, why) in told().items():
        assert kafkas == ours or why, name
