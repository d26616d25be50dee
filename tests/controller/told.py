"""The answers of a Kafka release about configs: the lines of `kafka/other_configs.jsonl`, by kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TOLD = [json.loads(line) for line in (Path(__file__).parent / "kafka/other_configs.jsonl").read_text().splitlines()]

ASKED: tuple[str, ...] = tuple(next(each["values"] for each in _TOLD if each["kind"] == "asked"))
"""The values that each config was asked about."""


def told(kind: str) -> list[dict[str, Any]]:
    """The lines of one kind."""
    return [each for each in _TOLD if each["kind"] == kind]
