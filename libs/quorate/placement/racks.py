"""Groups the usable brokers by rack: sorted once per broker set, and shared by all its placements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId
from quorate.placement.spec import UsableBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """The brokers of one rack, ascending by id; `name` is None for brokers without a rack."""

    name: str | None
    unfenced: tuple[NodeId, ...]
    fenced: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Racks:
    """All racks of a broker set, sorted by name; the brokers without a rack come first.

    Keep a `Racks` as long as the broker set is unchanged: sorting a hundred brokers takes longer than placing a
    partition.
    """

    racks: tuple[Rack, ...]
    unfenced_count: int
    fenced_count: int

    @classmethod
    def of(cls, brokers: Iterable[UsableBroker]) -> Racks:
        """Groups `brokers`, in any order, by rack.

        Raises ApiError(INVALID_REQUEST) if an id is negative or listed twice.
        """
        by_id: dict[NodeId, UsableBroker] = {}
        for broker in brokers:
            _check(broker, by_id)
            by_id[broker.id] = broker
        members: dict[str | None, list[UsableBroker]] = {}
        for _, broker in sorted(by_id.items()):
            members.setdefault(broker.rack, []).append(broker)
        racks = tuple(_rack(name, members[name]) for name in sorted(members, key=_nameless_first))
        unfenced_count = sum(len(rack.unfenced) for rack in racks)
        fenced_count = sum(len(rack.fenced) for rack in racks)
        assert unfenced_count + fenced_count == len(by_id), (unfenced_count, fenced_count, len(by_id))
        return cls(racks=racks, unfenced_count=unfenced_count, fenced_count=fenced_count)


def _check(broker: UsableBroker, seen: dict[NodeId, UsableBroker]) -> None:
    if broker.id < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker id {broker.id} is negative")
    if broker.id in seen:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"broker {broker.id} is listed twice, in rack {seen[broker.id].rack!r} and in rack {broker.rack!r}",
        )


def _rack(name: str | None, brokers: list[UsableBroker]) -> Rack:
    return Rack(
        name=name,
        unfenced=tuple(broker.id for broker in brokers if not broker.fenced),
        fenced=tuple(broker.id for broker in brokers if broker.fenced),
    )


def _nameless_first(name: str | None) -> tuple[bool, str]:
    return (name is not None, name or "")
