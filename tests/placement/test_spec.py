"""What a placement refuses, and in which words."""

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, Racks, UsableBroker, place


class NeverDrawn:
    """A refusal comes before anything is drawn."""

    def randrange(self, stop: int) -> int:
        raise AssertionError(stop)

    def shuffle(self, x: list[object]) -> None:
        raise AssertionError(x)


REFUSALS = {
    "no replica": ((2, 1), (0, 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "a replication factor of 0 is not"),
    "negative": ((2, 1), (0, 1, -1), ErrorCode.INVALID_REPLICATION_FACTOR, "a replication factor of -1 is not"),
    "too few": ((2, 1), (0, 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "factor of 4 .* only 3 can be used"),
    "no broker": ((0, 0), (0, 1, 1), ErrorCode.INVALID_REPLICATION_FACTOR, "factor of 1 .* only 0 can be used"),
    "all fenced": ((0, 3), (0, 1, 1), ErrorCode.INVALID_REPLICATION_FACTOR, "all 3 usable brokers are fenced"),
    "no partition": ((2, 1), (0, 0, 1), ErrorCode.INVALID_PARTITIONS, "0 partitions from id 0 on"),
    "negative count": ((2, 1), (0, -7, 1), ErrorCode.INVALID_PARTITIONS, "-7 partitions from id 0 on"),
    "negative id": ((2, 1), (-3, 1, 1), ErrorCode.INVALID_PARTITIONS, "1 partitions from id -3 on"),
}


@pytest.mark.parametrize(("counts", "asked", "code", "words"), REFUSALS.values(), ids=REFUSALS)
def test_refuses(counts: tuple[int, int], asked: tuple[int, int, int], code: ErrorCode, words: str) -> None:
    unfenced, fenced = counts
    racks = Racks.of(UsableBroker(id=id, fenced=id >= unfenced) for id in range(unfenced + fenced))
    start, count, replication_factor = asked
    spec = PlacementSpec(start_partition=start, partition_count=count, replication_factor=replication_factor)

    with pytest.raises(ApiError, match=words) as refusal:
        place(spec, racks, NeverDrawn())

    assert refusal.value.code == code


def test_a_refusal_carries_its_counts_for_programs() -> None:
    with pytest.raises(ApiError) as refusal:
        PlacementSpec(partition_count=1, replication_factor=4).check(unfenced_count=2, fenced_count=1)

    assert refusal.value.metadata == {"replication_factor": "4", "broker_count": "3"}


def test_numbers_added_partitions_from_the_first_new_one() -> None:
    spec = PlacementSpec(start_partition=4, partition_count=3, replication_factor=1)

    assert list(spec.partition_ids) == [4, 5, 6]


def test_sorts_racks_by_name_and_brokers_by_id_with_the_nameless_rack_first() -> None:
    brokers = [
        UsableBroker(id=9, rack="b"),
        UsableBroker(id=2, rack="b", fenced=True),
        UsableBroker(id=4, rack="b"),
        UsableBroker(id=7),
        UsableBroker(id=1, rack="a", fenced=True),
        UsableBroker(id=3, rack=""),
    ]

    racks = Racks.of(brokers)

    assert [(rack.name, rack.unfenced, rack.fenced) for rack in racks.racks] == [
        (None, (7,), ()),
        ("", (3,), ()),
        ("a", (), (1,)),
        ("b", (4, 9), (2,)),
    ]
    assert (racks.unfenced_count, racks.fenced_count) == (4, 2)
    assert racks == Racks.of(reversed(brokers))


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        ([UsableBroker(id=3, rack="a"), UsableBroker(id=3)], "broker 3 is listed twice, in rack 'a' and in rack None"),
        ([UsableBroker(id=-1)], "broker id -1 is negative"),
    ],
)
def test_refuses_a_broker_set_that_is_none(brokers: list[UsableBroker], words: str) -> None:
    with pytest.raises(ApiError, match=words) as refusal:
        Racks.of(brokers)

    assert refusal.value.code == ErrorCode.INVALID_REQUEST
