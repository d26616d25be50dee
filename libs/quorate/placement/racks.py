"""The usable brokers by rack: sorted once for a broker set, shared by all placements on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId
from quorate.placement.spec import UsableBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """One rack's brokers, ascending by id; `name` is None for the brokers that name no rack."""

    name: str | None
    unfenced: tuple[NodeId, ...]
    fenced: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Racks:
    """All racks of a broker set by name, the nameless one first.

    Sorting a hundred brokers takes longer than placing a partition does: keep a `Racks` for as long as the
    broker set stands.
    """

    racks: tuple[Rack, ...]
    unfenced_count: int
    fenced_count: int

    @classmethod
    def of(cls, brokers: Iterable[UsableBroker]) -> Racks:
        """The racks of `brokers`, whose order does not matter.

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
        return cls(
            racks=racks,
            unfenced_count=sum(len(rack.unfenced) for rack in racks),
            fenced_count=sum(len(rack.fenced) for rack in racks),
        )


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
