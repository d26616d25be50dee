"""Messages about who votes, on the wire and back (KIP-853)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.api_versions_pb2 import ApiVersionsResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterRequest
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    ControllerPresenceRequest,
    ControllerPresenceResponse,
    TransferLeadershipRequest,
)
from quorate.errors import ApiError, ErrorCode
from quorate.raft import messages as raft
from quorate.raft.voters import VersionRange
from services.quorum import translate
from services.quorum.translate.envelope import VOTERS_MAX
from services.quorum.translate.membership import SEQUENCE_MAX
from tests.services.quorum.core_messages import REPLY_TO


@pytest.mark.parametrize(("voter_id", "to"), [(-1, None), (2, 2)])
def test_a_transfer_may_leave_the_choice_to_the_leader(voter_id: int, to: int | None) -> None:
    request = translate.transfer_request(TransferLeadershipRequest(voter_id=voter_id, epoch=3, timeout_ms=7), REPLY_TO)

    assert raft.TransferLeadershipRequest(to=to, epoch=3, timeout_ms=7, reply_to=REPLY_TO) == request


def test_a_listener_has_one_address() -> None:
    listener = AddRaftVoterRequest.Listener(name="CONTROLLER", host="a", port=1)
    request = AddRaftVoterRequest(voter_id=1, voter_directory_id="A" * 22, listeners=[listener, listener])

    with pytest.raises(ApiError, match=r"CONTROLLER.*once") as refusal:
        translate.add_request(request, REPLY_TO)
    assert ErrorCode.INVALID_REQUEST is refusal.value.code


@pytest.mark.parametrize("host", ["ctl-3..example.com", ".example.com", "x" * 64, "ü" * 62, "x\0y"])
@pytest.mark.parametrize(
    ("request_", "back"),
    [
        pytest.param(AddRaftVoterRequest, translate.add_request, id="AddRaftVoter"),
        pytest.param(UpdateRaftVoterRequest, translate.update_request, id="UpdateRaftVoter"),
    ],
)
def test_a_host_that_nobody_can_ask_dns_for_is_refused(request_: Any, back: Callable[..., Any], host: str) -> None:
    listener = request_.Listener(name="CONTROLLER", host=host, port=9093)
    request = request_(voter_id=1, voter_directory_id="A" * 22, listeners=[listener])

    with pytest.raises(ApiError, match=r"listeners\[0\].host: .* is no host") as refusal:
        back(request, REPLY_TO)
    assert ErrorCode.INVALID_REQUEST is refusal.value.code


def test_a_node_that_does_not_speak_of_kraft_version_works_with_level_0_only() -> None:
    assert VersionRange(0, 0) == translate.from_api_versions(ApiVersionsResponse(), REPLY_TO).kraft_versions


def test_a_node_says_which_apis_it_serves_and_in_which_versions() -> None:
    answer = translate.api_versions_answer(raft.ApiVersionsResponse())
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    assert [1, 18, 52, 53, 54, 55, 59, 80, 81, 82] == list(served)
    assert ((0, 2), (0, 1)) == (served[52], served[80])


BAD_LISTENERS = {
    "a port beyond all": {"name": "A", "host": "a", "port": 65_536},
    "no port": {"name": "A", "host": "a", "port": 0},
    "no host": {"name": "A", "host": "", "port": 1},
    "a giant host": {"name": "A", "host": "h" * 70_000, "port": 1},
    "no name": {"name": "", "host": "a", "port": 1},
    "a giant name": {"name": "n" * 256, "host": "a", "port": 1},
}


@pytest.mark.parametrize("which", BAD_LISTENERS)
def test_a_listener_that_nobody_could_reach_or_the_log_not_hold_is_refused(which: str) -> None:
    good = {"name": "CONTROLLER", "host": "a", "port": 1}
    for message, take in (
        (AddRaftVoterRequest, translate.add_request),
        (UpdateRaftVoterRequest, translate.update_request),
    ):
        listeners = [message.Listener(**each) for each in (good, BAD_LISTENERS[which])]  # type: ignore[attr-defined]
        request: Any = message(voter_id=1, voter_directory_id="A" * 22, listeners=listeners)
        with pytest.raises(ApiError, match=r"listeners\[1\]\.") as refusal:
            take(request, REPLY_TO)

        assert ErrorCode.INVALID_REQUEST is refusal.value.code


@pytest.mark.parametrize(("lowest", "highest"), [(-1, 1), (2, 1), (0, 32_768), (-(2**31), 2**31 - 1)])
def test_a_range_of_levels_that_is_none_is_refused(lowest: int, highest: int) -> None:
    feature = UpdateRaftVoterRequest.KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest)

    with pytest.raises(ApiError, match="k_raft_version_feature"):
        translate.update_request(UpdateRaftVoterRequest(voter_id=1, k_raft_version_feature=feature), REPLY_TO)


@pytest.mark.parametrize("sequence", [-1, 0, SEQUENCE_MAX + 1])
def test_a_report_that_leaves_no_room_for_another_is_refused(sequence: int) -> None:
    with pytest.raises(ApiError, match=rf"sequence: {sequence}; it is from 1 to {SEQUENCE_MAX}") as refused:
        translate.presence_request(ControllerPresenceRequest(voter_id=1, sequence=sequence), REPLY_TO)

    assert ErrorCode.INVALID_REQUEST is refused.value.code
    with pytest.raises(ApiError, match="sequence"):
        translate.from_presence(ControllerPresenceResponse(sequence=sequence or -1), REPLY_TO)


class Many(list[Any]):
    """So many that nobody may look at each before the count is known."""

    def __len__(self) -> int:
        return 1 << 20

    def __iter__(self) -> Any:
        raise AssertionError("looked at")


def test_of_too_many_listeners_none_is_looked_at() -> None:
    with pytest.raises(ApiError, match="listeners: 1048576 listeners; 64 is the most") as refused:
        translate.listeners_of("listeners", Many())

    assert ErrorCode.INVALID_REQUEST is refused.value.code


def test_of_too_many_voters_none_is_looked_at() -> None:
    request = AlterQuorumRequest(voters=[AlterQuorumRequest.Voter(id=1, directory_id="none")] * (VOTERS_MAX + 1))

    with pytest.raises(ApiError, match=f"voters: {VOTERS_MAX + 1} voters; {VOTERS_MAX} is the most") as refused:
        translate.alter_request(request, REPLY_TO)

    assert ErrorCode.INVALID_REQUEST is refused.value.code


def test_of_too_many_candidates_none_is_looked_at() -> None:
    request = translate.to_end(raft.EndQuorumEpochRequest(epoch=3, leader_id=1))
    candidates = request.topics[0].partitions[0].preferred_candidates
    for _ in range(VOTERS_MAX + 1):
        candidates.add(candidate_id=1, candidate_directory_id="none")

    with pytest.raises(ApiError, match=f"preferred_candidates: {VOTERS_MAX + 1} candidates; {VOTERS_MAX} is the most"):
        translate.end_request(request, REPLY_TO)
