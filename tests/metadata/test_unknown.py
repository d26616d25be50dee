"""Records that nobody here knows: kept by readers, a fault to who decides by the state."""

from __future__ import annotations

import pytest

from quorate.controller.engine.engine import Engine
from quorate.metadata.canonical import canonical
from quorate.metadata.faults import ReplayFault
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.records import UnknownRecord, decode_record

UNKNOWN = UnknownRecord(api_key=99, version=3, body=b"?")
NEWER = decode_record(b"\x01\x14\x63\x00")
"""A NoOpRecord in version 99."""


@pytest.mark.parametrize("record", [UNKNOWN, NEWER], ids=["type", "version"])
def test_a_reader_keeps_it(record: UnknownRecord) -> None:
    state = ClusterState()

    state.apply(record, 0)

    assert [(record, record.version)] == list(state.records())


@pytest.mark.parametrize("record", [UNKNOWN, NEWER], ids=["type", "version"])
def test_a_controller_does_not_go_on(record: UnknownRecord) -> None:
    """Nor by a checkpoint, and nothing is changed."""
    engine = Engine(ClusterState(supported_features()))
    before = canonical(engine.state)

    why = f"UnknownRecord at offset 0: record type {record.api_key} in version {record.version} is not known here"
    with pytest.raises(ReplayFault, match=why):
        engine.replay([record], base_offset=0, end_offset=1)
    with pytest.raises(ReplayFault, match="is not known here"):
        engine.load([record], end_offset=7)

    assert before == canonical(engine.state)
