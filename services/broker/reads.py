"""Answers from the state that is applied here: DescribeCluster (60), DescribeTopicPartitions (75),
DescribeConfigs (32), and who may do what (`access_reads.py`).

The decisions are those of the controllers, on this broker's copy. It may trail what a controller has just answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from kraft import Message
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.access.screening import describe_configs as describe_configs_screen
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Moment, steps_of
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import EndpointType, NodeId
from quorate.protocol import Request
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.caps import check_list
from quorate.runtime.requests.refusals import refused
from quorate.wire.fitting import fitted_in_steps
from services.broker.access_reads import ABOUT_ACCESS, access_command
from services.broker.callers import Caller
from services.broker.cluster import Cluster

__all__ = ["DESCRIBED", "Reads"]

DEFAULTS: Final = ControllerSettings()
"""The stand-in for the brokers' files, which nobody else knows."""
DESCRIBED: Final = (DescribeClusterRequest, DescribeTopicPartitionsRequest, DescribeConfigsRequest, *ABOUT_ACCESS)
NO_TOKENS: Final = TokenSettings()
_LISTS: Final[Mapping[type[Message], str]] = MappingProxyType(
    {
        DescribeTopicPartitionsRequest: "topics",
        DescribeConfigsRequest: "resources",
        DescribeClientQuotasRequest: "components",
        DescribeUserScramCredentialsRequest: "users",
        DescribeDelegationTokenRequest: "owners",
    }
)


class Reads:
    """Answers DescribeCluster, DescribeTopicPartitions, DescribeConfigs, `ABOUT_ACCESS`, each in turns of the loop."""

    def __init__(
        self,
        broker_id: NodeId,
        replica: Replica,
        cluster: Cluster,
        clock: Clock,
        tokens: TokenSettings = NO_TOKENS,
    ) -> None:
        """`tokens` has the secret key of delegation tokens; without it there are none."""
        self._tokens = tokens
        self._broker_id = broker_id
        self._replica = replica
        self._cluster = cluster
        self._clock = clock

    async def answer(self, request: Request, caller: Caller) -> Message:
        """Returns the answer to one of `DESCRIBED`, by the state that is applied here, in the request's version.

        A refusal is in the answer, in the place that the API has for it; none is raised.
        """
        version = request.header.request_api_version
        try:
            response = await self._described(request, caller)
        except ApiError as refusal:
            response = await in_turns(refused(request.message, refusal, version, request.principal))
        return await in_turns(fitted_in_steps(response, version))

    async def _described(self, request: Request, caller: Caller) -> Message:
        asked = request.message
        if (items := _LISTS.get(type(asked))) is not None:
            check_list(items, len(getattr(asked, items) or ()))
        moment = Moment(next_offset=self._replica.applied, now_ms=self._clock.wall_ms())
        state = self._replica.state
        # Each resource and each topic is looked up anew in its step, whatever has changed meanwhile.
        if isinstance(asked, DescribeConfigsRequest):
            screened = await in_turns(describe_configs_screen(caller.may, asked, state))
            command = describe_configs(screened.asked, settings=DEFAULTS)
            decision = await in_turns(steps_of(command, state, moment))
            finished: Message = screened.finish(decision.response)
            return finished
        # The list is taken in the first step, whatever changes later.
        if isinstance(asked, ABOUT_ACCESS):
            command = access_command(request, caller, self._tokens)
        else:
            command = self._command(asked, caller)
        found: Message = (await in_turns(steps_of(command, state, moment))).response
        return found

    def _command(self, asked: Message, caller: Caller) -> Command[Any]:
        match asked:
            case DescribeClusterRequest():
                return self._brokers(asked, caller)
            case DescribeTopicPartitionsRequest():
                allows = caller.may if asked.topics else caller.sees
                return describe_topic_partitions(asked, allows=allows, would_allow=caller.would_allow)
        raise AssertionError(type(asked))

    def _brokers(self, asked: DescribeClusterRequest, caller: Caller) -> Command[Any]:
        """Describes the brokers at the caller's listener; controllers are asked for at a controller's (KIP-919)."""
        if asked.endpoint_type != EndpointType.BROKERS:
            why = "this is a broker's listener, and endpoint type 2 asks for controllers; 1 asks for brokers"
            raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why)
        command: Callable[[Any, Moment], Any] = describe_cluster(
            asked,
            cluster_id=self._replica.cluster_id or "",
            controller_id=self._broker_id,
            allows=caller.may,
            would_allow=caller.would_allow,
        )

        def at_this_listener(state: Any, moment: Moment) -> Any:
            decision = command(state, moment)
            brokers = []
            for each in decision.response.brokers:
                if (at := self._cluster.listed(each.broker_id, caller.listener)) is not None:
                    brokers.append(replace(each, host=at.host, port=at.port))
            return replace(decision, response=replace(decision.response, brokers=tuple(brokers)))

        return at_this_listener
