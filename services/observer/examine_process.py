"""A process that examines a state: the state's records are its input, part by part, and its output is the examination.

It builds a state of its own, so that neither the examination nor what a restart would change takes the observer's time.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final

from kraft.service.observer_pb2 import ExamineResponse, GetImageResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.doctor import Facts, examine
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.records import decode_record
from quorate.what_if import Restart, plan_restarts

__all__ = ["FINDINGS_MAX", "SIZE", "examination"]

SIZE: Final = struct.Struct(">I")
"""The header of each part of the input: its bytes."""
FINDINGS_MAX: Final = 10_000
"""Findings that are kept, the worst; all are counted."""
HARMED_MAX: Final = 5


def examination(state: ClusterState, next_offset: Offset) -> ExamineResponse:
    """Returns the doctor's findings on a state, the 10,000 worst, and what the restart of each broker would harm.

    It changes `state`, which is of no more use. Nothing is said of what an image does not have: voters, kraft.version,
    and what time it is.
    """
    facts = Facts(state=state, voters=None, kraft_version=None, now_ms=None)
    found = examine(facts)
    restarts = plan_restarts(
        state, [each.id for each in state.brokers], settings=ControllerSettings(), next_offset=next_offset
    )
    return ExamineResponse(
        next_offset=next_offset,
        findings=[
            ExamineResponse.Finding(
                severity=each.severity.value,
                code=each.code,
                subject=each.subject,
                sentence=each.sentence,
                advice=each.advice,
            )
            for each in found[:FINDINGS_MAX]
        ],
        counts=Counter(each.severity.value for each in found),
        restarts=map(_restart, restarts),
    )


def _restart(restart: Restart) -> ExamineResponse.Restart:
    return ExamineResponse.Restart(
        broker_id=restart.broker_id,
        harmed_count=len(restart.harmed),
        harmed=[f"{each.topic}-{each.partition_id}: {each.harm.value}" for each in restart.harmed[:HARMED_MAX]],
        after=restart.after,
    )


def _parts(source: BinaryIO) -> Iterator[GetImageResponse]:
    while head := source.read(SIZE.size):
        yield GetImageResponse.FromString(source.read(SIZE.unpack(head)[0]))


def _run() -> None:
    parts = _parts(sys.stdin.buffer)
    next_offset = next(parts).next_offset
    state = ClusterState()
    state.load((decode_record(value) for part in parts for value in part.records), next_offset)
    sys.stdout.buffer.write(examination(state, next_offset).SerializeToString())


if __name__ == "__main__":
    _run()
