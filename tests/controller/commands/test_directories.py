"""What a heartbeat says of directories, and what others may do then (KIP-858, KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft import Uuid
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from tests.controller.clusters import Assignment, Cluster, Topic, uuid

GOOD, BAD = uuid(901), uuid(902)


def cordoned(directories: Sequence[Uuid]) -> Cluster:
    """Broker 1 has two directories, of which it has cordoned these; broker 2."""
    made = Cluster(33)
    epoch = made.register(1, log_dirs=(GOOD, BAD))
    made.unfence(1)
    made.brokers(2)
    made.write(
        change_broker_state(
            broker_id=1,
            broker_epoch=epoch,
            target=ControlState.UNFENCED,
            settings=made.settings,
            cordoned_log_dirs=directories,
        )
    )
    return made


@pytest.mark.parametrize(("directories", "code"), [([BAD], 0), ([GOOD, BAD], ErrorCode.INVALID_REPLICA_ASSIGNMENT)])
def test_nobody_may_place_a_replica_on_a_broker_whose_directories_are_all_cordoned(
    directories: list[Uuid], code: int
) -> None:
    response = cordoned(directories).create(Topic("u", -1, -1, (Assignment(0, (2, 1)),)))

    assert [code] == [topic.error_code for topic in response.topics]
