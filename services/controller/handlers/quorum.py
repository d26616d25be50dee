"""The APIs about the quorum itself, which the quorum node beside the active controller answers."""

from __future__ import annotations

from typing import Final

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.service.quorum_pb2 import AlterQuorumRequest, TransferLeadershipRequest
from quorate.metadata.acls import AclOperation
from services.controller.api import Api
from services.controller.quorum_node import CHANGE_DEADLINE_MS, DEADLINE_MS

__all__ = ["ALTER_QUORUM", "QUORUM"]

ALTER_QUORUM: Final = Api(
    name="AlterQuorum",
    request=AlterQuorumRequest,
    right=AclOperation.ALTER,
    is_forwarded=False,
)
"""Streams the steps to a target voter set; the controller that is asked has its own quorum node do it."""

QUORUM: Final = (
    Api(
        name="AddRaftVoter",
        request=AddRaftVoterRequest,
        quorum_deadline_ms=CHANGE_DEADLINE_MS,
        right=AclOperation.ALTER,
    ),
    ALTER_QUORUM,
    Api(
        name="DescribeQuorum",
        request=DescribeQuorumRequest,
        quorum_deadline_ms=DEADLINE_MS,
        right=AclOperation.DESCRIBE,
        is_read=True,
        needs_leader=False,
    ),
    Api(
        name="RemoveRaftVoter",
        request=RemoveRaftVoterRequest,
        quorum_deadline_ms=CHANGE_DEADLINE_MS,
        right=AclOperation.ALTER,
    ),
    Api(
        name="TransferLeadership",
        request=TransferLeadershipRequest,
        quorum_deadline_ms=CHANGE_DEADLINE_MS,
        right=AclOperation.ALTER,
    ),
)
