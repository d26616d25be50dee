"""Asks a live quorum's leader how far each voter is: DescribeQuorum (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.errors import ApiError, Corrupt, ErrorCode, error_of, refusal_of
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC

__all__ = ["View", "describe_quorum"]

View = DescribeQuorumResponse.TopicData.PartitionData
RETRY_S = 0.1

_Topic = DescribeQuorumRequest.TopicData


async def describe_quorum(bootstrap: Sequence[Endpoint], config: ClientConfig) -> View:
    """Returns the metadata partition in the leader's DescribeQuorum answer; these controllers are asked in turn.

    A follower may name the leader, which is then asked, too. Raises ApiError for a refusal, such as a missing right
    (DESCRIBE on the cluster); TimeoutError if no leader has answered within `default.api.timeout.ms`.
    """
    loop = asyncio.get_running_loop()
    deadline, servers, problem = loop.time() + config.api_timeout_ms / 1000, list(bootstrap), "none"
    while True:
        for at in list(servers):
            try:
                answer = await _ask(at, config)
                view = _view_of(answer)
            except (OSError, Corrupt) as failure:
                problem = f"{at[0]}:{at[1]}: {str(failure) or type(failure).__name__}"
                continue
            if not view.error_code:
                return view
            problem = f"{at[0]}:{at[1]}: {error_of(view.error_code).name}"
            servers += [each for each in _leader_in(answer, view) if each not in servers]
        if loop.time() > deadline:
            why = f"no leader has answered within {config.api_timeout_ms} ms (default.api.timeout.ms)"
            raise TimeoutError(f"{why}; last: {problem}")
        await asyncio.sleep(RETRY_S)


async def _ask(at: Endpoint, config: ClientConfig) -> DescribeQuorumResponse:
    """Raises OSError, Corrupt; ApiError for a refusal that another try does not change."""
    asked = DescribeQuorumRequest(topics=(_Topic(METADATA_TOPIC, (_Topic.PartitionData(METADATA_PARTITION),)),))
    async with await config.connect(at) as connection:
        answer = await connection.ask_for(DescribeQuorumResponse, asked)
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "DescribeQuorum requires DESCRIBE on the cluster")
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        raise refusal_of(answer.error_code, answer.error_message or "DescribeQuorum")
    return answer


def _view_of(answer: DescribeQuorumResponse) -> View:
    """Returns the metadata partition's part. Raises Corrupt if it is not the only one."""
    found = [each for topic in answer.topics for each in topic.partitions]
    if len(found) != 1:
        raise Corrupt(f"the answer to DescribeQuorum has {len(found)} partitions; one was asked for")
    return found[0]


def _leader_in(answer: DescribeQuorumResponse, view: View) -> Sequence[Endpoint]:
    listeners = [each for node in answer.nodes if node.node_id == view.leader_id for each in node.listeners]
    return [(each.host, each.port) for each in listeners]
