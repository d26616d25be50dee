"""Every config that a Kafka release has is in our tables, with its type and default, and is a secret where it is one.

The tables are of 4.4.0, asked in `tests/controller/kafka`; the release that runs here is older, and has nothing else.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.configs.broker_file import FILE_ONLY, INTERNAL
from quorate.controller.configs.values import Values
from quorate.controller.secrets import is_secret
from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from tests.interop.kafka.release import absent, java

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

PROGRAM: Final = Path(__file__).parent / "kafka/Configs.java"
TIMEOUT_S: Final = 300
OF_KAFKAS_OWN_TESTS: Final = "internal.segment.bytes"
KINDS: Final = {"broker": BROKER, "topic": TOPIC, "client metrics": CLIENT_METRICS, "group": GROUP}
LATER: Final = {
    "topic": {
        "errors.deadletterqueue.group.enable",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
    },
}
"""What 4.4 has and the release has not."""


@cache
def released() -> dict[tuple[str, str], dict[str, Any]]:
    """What the release says, by whom and name."""
    command = java("Configs", source=PROGRAM)
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return {(line["of"], line["name"]): line for line in lines if line["name"] != OF_KAFKAS_OWN_TESTS}


def ours() -> dict[tuple[str, str], tuple[Values, str | None]]:
    found: dict[tuple[str, str], tuple[Values, str | None]] = {}
    for name in (*FILE_ONLY, *broker.DYNAMIC):
        config = broker.config_of(name)
        assert config is not None, name
        found["broker", name] = config.values, config.default
    for each in topic.CONFIGS.values():
        found["topic", each.name] = each.values, each.default
    for metric in client_metrics.CONFIGS.values():
        found["client metrics", metric.name] = metric.values, metric.default
    for one in group.CONFIGS.values():
        default = one.default if one.synonym is None else broker.default_of(one.synonym)
        found["group", one.name] = one.values, default
    return found


def test_has_every_config_with_its_type_and_default() -> None:
    told, known = released(), ours()

    assert len(told) > 400
    assert {key: (line["type"], line["default"]) for key, line in told.items()} == {
        key: (values.type.name, default) for key, (values, default) in known.items() if key in told
    }


def test_knows_what_is_a_secret_and_what_is_for_kafkas_own_use() -> None:
    told, known = released(), ours()

    assert {key for key, line in told.items() if line["sensitive"]} == {
        key for key, (values, _) in known.items() if values.is_sensitive and key in told
    }
    assert {key for key, line in told.items() if line["sensitive"]} == {
        (of, name) for of, name in told if is_secret(KINDS[of], name)
    }
    assert {name for (of, name), line in told.items() if of == "broker" and line["internal"]} == {
        name for name in INTERNAL if ("broker", name) in told
    }


def test_of_topics_there_is_nothing_but_what_came_later() -> None:
    names = {of: {name for kind, name in released() if kind == of} for of in LATER}

    assert LATER == {of: {name for kind, name in ours() if kind == of} - names[of] for of in LATER}
