"""The scripts in `scenarios/` come out as they were reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.raft.scenario import SCENARIOS, parse, play

PATHS = sorted(SCENARIOS.glob("*.txt"))


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_plays_as_reviewed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text == play(text), f"if this was meant: python -m tests.raft.scenario {path.name}, and read the diff"


def test_every_block_has_commands_and_output() -> None:
    for path in PATHS:
        for block in parse(path.read_text(encoding="utf-8")):
            assert block.commands, path
            assert block.output, (path, block.commands)


def test_a_wrong_expectation_is_noticed() -> None:
    text = PATHS[0].read_text(encoding="utf-8").replace("Leader epoch=1", "Leader epoch=2", 1)

    assert text != play(text)
