"""One line of the script: a request built from what a target's own state says, and the errors that it has to earn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kraft import Message, Uuid
from kraft.errors import ErrorCode
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset
from tests.interop.operations.names import UNKNOWN_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a request may be built from: ids and epochs that each target has chosen by itself."""

    state: ClusterState
    """It goes on when the target is looked at again: who waits meanwhile reads it before."""
    offset: Offset
    """The state has every record below it."""
    changed_at: Offset
    """The records from here on say nothing."""
    active_id: NodeId
    """The controller that is asked."""
    names: Mapping[str, str]
    """Topics' names by the texts of their ids."""

    def topic_id(self, name: str) -> Uuid:
        """The id of a topic; of one that is not there an id that no topic has."""
        return self.state.topics.id_of(name) or UNKNOWN_TOPIC_ID

    def partition(self, topic: str, number: int) -> Partition:
        found = self.state.topics.partition(self.topic_id(topic), number)
        assert found is not None, (topic, number)
        return found

    def broker_epoch(self, broker_id: NodeId) -> int:
        """The epoch of a broker's registration, -1 if it has none."""
        broker = self.state.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch


Built: TypeAlias = Callable[[View], Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request. `errors` are the codes other than NONE that its response has to have, at whatever depth.

    `masks` names fields of the response that chance decides, in Kafka's spelling. `version` is the request's where it
    is not to be the newest.
    """

    name: str
    request: Built
    errors: frozenset[ErrorCode] = frozenset()
    masks: frozenset[str] = frozenset()
    version: int | None = None
    again_while: ErrorCode | None = None
    """Asked again for as long as it is refused so, as a client would."""
    differs: frozenset[ErrorCode] | None = None
    """What we answer instead of `errors`, by intent: README.md says why. The next step heals the state."""
    is_so_already: bool = False
    """It asks for what is so: Kafka writes it once more, and we nothing, by intent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Nothing is asked: the target comes to something by itself. `holds` says when it has."""

    name: str
    holds: Callable[[View], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """From now on the brokers' stand-ins send heartbeats of their own accord, or no longer."""

    name: str
    begin: tuple[NodeId, ...] = ()
    end: tuple[NodeId, ...] = ()


Step: TypeAlias = Ask | Until | Beat
Sent: TypeAlias = Callable[[Message], Awaitable[Message]]
