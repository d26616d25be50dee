"""Every decoder takes some hundred damaged inputs, always the same; `python -m tests.fuzz.decoders` sends a million."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.decoder_targets import Target, targets_in
from tests.fuzz.decoders import run

COUNT = 300


def test_every_decoder_refuses_what_is_damaged_by_its_own_errors(tmp_path: Path) -> None:
    told: list[str] = []
    names, decoded = [], []
    for target in targets_in(tmp_path):
        found = run(target, count=COUNT, seed=11, tell=told.append)
        names.append(target.name)
        decoded.append(found.decoded)

    assert [] == told
    assert len(set(names)) == len(names)
    assert min(decoded) > 0, dict(zip(names, decoded, strict=True))  # it gets through, too


def test_an_error_that_is_not_the_decoders_own_is_a_fault() -> None:
    target = Target(name="planted", samples=[b"sample"], decode=lambda data: [][len(data)], errors=(ValueError,))
    told: list[str] = []

    assert 10 == run(target, count=10, seed=1, tell=told.append).faults
    assert told[0].startswith("planted: IndexError: ")
