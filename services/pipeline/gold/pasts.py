"""Follows the histories of a cluster in a Python worker: since when what the doctor asks about has been so.

A condition has held since the state behind the last one in which it did not, or since the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from quorate.doctor import BrokerPast, Condition, Moment
from quorate.doctor.past import shown
from quorate.metadata.configs import TOPIC
from quorate.nouns import NodeId

__all__ = ["Brokers", "Configs", "Held", "Racks"]

DAY_MS: Final = 86_400_000
_UNREGISTERED: Final = "UNREGISTER_BROKER_RECORD"
Document = Mapping[str, Any]
"""A row of a history as JSON."""


class Held:
    """Follows a condition: `since` is the moment from which on it has held to the present; None if it does not hold."""

    def __init__(self) -> None:
        self.since: Moment | None = None
        self._was = False

    def note(self, holds: bool, at: Moment) -> None:
        """Notes whether it holds from this moment on; moments come in their order."""
        if holds and not self._was:
            self.since = at
        elif not holds:
            self.since = None
        self._was = holds


class _Broker:
    """One broker's states, in their order; a state that does not begin where the one before ends begins a life."""

    def __init__(self) -> None:
        self._last: Document | None = None
        self._fencings: list[Moment] = []
        self._cordoned: Sequence[str] | None = None
        self._dirs: Sequence[str] | None = None
        self._moments: dict[Condition, Moment] = {}
        self._fenced_since: Moment | None = None
        self._lives()

    def _lives(self) -> None:
        self._no_rack, self._is_cordoned, self._is_fenced, self._is_shut = (Held() for _ in range(4))

    def take(self, state: Document, at: Moment) -> None:
        """Takes the next state."""
        last = self._last
        follows = last is not None and last.get("valid_to_offset") == at.offset
        if not follows:
            self._lives()
        fenced, shut = state["fenced"], state.get("in_controlled_shutdown", False)
        was_fenced = follows and last is not None and last["fenced"]
        if fenced and not was_fenced:
            self._fenced_since = at
            # A broker in controlled shutdown is being restarted and has not failed.
            if follows and not shut:
                self._fencings.append(at)
        # A registration does not say which directories are cordoned until the broker does; the value before counts.
        self._cordoned = state.get("cordoned_log_dirs", self._cordoned)
        if self._dirs is None or self._dirs != state["log_dirs"]:
            self._moments[Condition.DIRECTORIES] = at
        self._dirs = state["log_dirs"] or self._dirs
        if state.get("end_type") == _UNREGISTERED:
            self._moments[Condition.UNREGISTERED] = _end(state)
        self._no_rack.note(state.get("rack") is None, at)
        self._is_cordoned.note(bool(self._cordoned), at)
        self._is_fenced.note(fenced, at)
        self._is_shut.note(shut, at)
        self._last = state

    def moments(self, end: Moment) -> Iterator[tuple[Condition, Moment]]:
        """Yields since when each condition of the broker has held, as of `end`."""
        yield from self._moments.items()
        assert self._last is not None
        found = {
            Condition.FENCED: self._fenced_since if self._last["fenced"] else None,
            Condition.FLAPPING: next(iter(self._failures(end)), None),
            Condition.NO_RACK: self._no_rack.since,
            Condition.CORDONED: self._is_cordoned.since,
        }
        yield from ((condition, at) for condition, at in found.items() if at is not None)

    def past(self, broker_id: NodeId, end: Moment) -> BrokerPast:
        """Returns the broker's past as of `end`: how it went away if it did, and its fencings of the last day."""
        last = self._last
        assert last is not None
        fencings = len(self._failures(end))
        left, shut = last.get("end_type") == _UNREGISTERED, last.get("in_controlled_shutdown", False)
        if not (left or last["fenced"] or shut):
            return BrokerPast(fencings=fencings)
        if not (last["fenced"] or shut):
            gone = _end(last)
            how = f" was unregistered at {shown(gone.time_ms)}"
        else:
            # A controlled shutdown ends with fencing, so the shutdown is the beginning.
            since = self._is_shut.since if shut else self._is_fenced.since
            assert since is not None, last
            gone = since
            how = f" {'began a controlled shutdown' if shut else 'was fenced'} at {shown(gone.time_ms)}"
            how += f" and unregistered at {shown(_end(last).time_ms)}" if left else ""
        return BrokerPast(fencings=fencings, gone=gone, words=f"broker {broker_id}{how}")

    def _failures(self, end: Moment) -> list[Moment]:
        """Returns the fencings of the last day."""
        return [at for at in self._fencings if _ms(end) - _ms(at) < DAY_MS]


class Brokers:
    """Follows the states of all brokers of a cluster."""

    def __init__(self) -> None:
        self._brokers: dict[NodeId, _Broker] = defaultdict(_Broker)

    def take(self, state: Document, at: Moment) -> None:
        """Takes the next state of a broker, in the order of offsets."""
        self._brokers[state["broker_id"]].take(state, at)

    def moments(self, end: Moment) -> Iterator[tuple[Condition, str, Moment]]:
        """Yields since when each condition of a broker has held, as of `end`: condition, subject, moment."""
        for broker_id, broker in self._brokers.items():
            for condition, at in broker.moments(end):
                yield condition, f"broker {broker_id}", at

    def pasts(self, end: Moment) -> dict[NodeId, BrokerPast]:
        """Returns the past of each broker as of `end`, by id: how it went away, and its fencings of the last day."""
        return {broker_id: broker.past(broker_id, end) for broker_id, broker in self._brokers.items()}


class Configs:
    """Follows whether topics may elect uncleanly: by their own config, or by the default while they have none."""

    def __init__(self) -> None:
        self._changes: dict[str | None, dict[Moment, str | None]] = defaultdict(dict)
        """By topic, None for the default of all brokers, the value from each moment on, None for none."""

    def take(self, config: Document, at: Moment) -> None:
        """Takes the next value of a topic's config, or of the default."""
        if config["resource_type"] != TOPIC and config["resource_name"]:
            return
        of = self._changes[config["resource_name"] or None]
        of[at] = config.get("value", "")
        if "valid_to_offset" in config:
            of.setdefault(_end(config), None)  # if one value ends and another begins, the new one counts

    def elects_uncleanly(self, births: Mapping[str, Moment], end: Moment) -> Iterator[tuple[str, Moment]]:
        """Yields the topics that may elect uncleanly at `end`, and since when; `births` says when each was created."""
        if not self._changes:
            return
        for topic, born in births.items():
            own: str | None = None
            default: str | None = None
            held = Held()
            changes = [(at, True, value) for at, value in self._changes.get(topic, {}).items()]
            changes += [(at, False, value) for at, value in self._changes.get(None, {}).items()]
            every = sorted([*changes, (born, None, None)], key=lambda each: each[0].offset)
            for _, some in groupby(every, key=lambda each: each[0].offset):
                same = list(some)
                own = next((value for _, is_own, value in same if is_own), own)
                default = next((value for _, is_own, value in same if is_own is False), default)
                at = same[0][0]
                if born.offset <= at.offset < end.offset:
                    held.note((own if own is not None else default or "").lower() == "true", at)
            if held.since is not None:
                yield topic, held.since


class Racks:
    """Follows since when partitions have been on too few racks.

    That depends on their replicas, and on the racks of all brokers, so it is looked at whenever one of them changed.
    """

    def __init__(self) -> None:
        self._lives: dict[NodeId, list[tuple[Moment, str | None, Moment | None]]] = defaultdict(list)
        """Of each broker from when to when it was registered with a rack."""
        self._replicas: dict[tuple[str, str, int], list[tuple[Moment, Sequence[NodeId]]]] = defaultdict(list)

    def take(self, state: Document, at: Moment) -> None:
        """Takes the next state of a broker."""
        lives, rack = self._lives[state["broker_id"]], state.get("rack")
        end = _end(state) if "valid_to_offset" in state else None
        if lives and lives[-1][1] == rack and lives[-1][2] is not None and lives[-1][2].offset == at.offset:
            lives[-1] = (lives[-1][0], rack, end)
        else:
            lives.append((at, rack, end))

    def place(self, partition: Document, at: Moment) -> None:
        """Takes the next replicas of a partition."""
        key = partition.get("topic", "none"), partition["topic_id"], partition["partition_id"]
        self._replicas[key].append((at, partition["replicas"]))

    def crowded(self, end: Moment) -> Iterator[tuple[str, Moment]]:
        """Yields the topic of each partition that is on fewer racks than there could be at `end`, and since when."""
        if not self._replicas:
            return
        lives = [(broker_id, *life) for broker_id, some in self._lives.items() for life in some]
        moved = {at for _, begin, _, over in lives for at in (begin, over) if at is not None and at.offset < end.offset}
        known: dict[int, dict[NodeId, str | None]] = {}
        for (topic, *_), placed in self._replicas.items():
            held = Held()
            replicas: Sequence[NodeId] = ()
            moments = {at.offset: at for at in (*moved, *(at for at, _ in placed))}
            for offset in sorted(moments):
                replicas = next((each for at, each in placed if at.offset == offset), replicas)
                if offset not in known:
                    known[offset] = {
                        broker_id: rack
                        for broker_id, begin, rack, over in lives
                        if begin.offset <= offset and (over is None or over.offset > offset)
                    }
                if replicas:
                    held.note(_is_crowded(replicas, known[offset]), moments[offset])
            if held.since is not None:
                yield topic, held.since


def _is_crowded(replicas: Sequence[NodeId], racks: Mapping[NodeId, str | None]) -> bool:
    own = [rack for each in replicas if (rack := racks.get(each)) is not None]
    count = len({rack for rack in racks.values() if rack is not None})
    return len(own) == len(replicas) and count > 1 and len(set(own)) < min(len(replicas), count)


def _end(state: Document) -> Moment:
    return Moment(state["valid_to_offset"], state.get("valid_to_ms"))


def _ms(at: Moment) -> int:
    return at.time_ms or 0
