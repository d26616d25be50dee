"""Faults of our processes under a producer's load, for a moment; `make broker-faults` has a hundred, on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import broker_faults
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]


async def test_what_producers_were_promised_is_there_once_and_no_broker_was_fenced_for_our_faults(
    tmp_path: Path,
) -> None:
    said = await broker_faults.run(tmp_path, on_ours=True, faults=broker_faults.Faults(3, seed=1))

    assert "none lost, none doubled" in said
