"""The collections one by one: they read as plain ones, and go back."""

from collections.abc import Mapping

import pytest

from quorate.timeline import SnapshotRegistry, TimelineDict, TimelineValue


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


@pytest.fixture
def leaders(registry: SnapshotRegistry) -> TimelineDict[str, int | None]:
    return TimelineDict(registry)


def test_a_dict_reads_as_a_mapping(leaders: TimelineDict[str, int | None]) -> None:
    leaders.update({"a": 1, "b": None})

    assert isinstance(leaders, Mapping)
    assert leaders == {"a": 1, "b": None}
    assert leaders["a"] == 1
    assert leaders.get("b", 7) is None
    assert leaders.get("c") is None
    assert leaders.get("c", 7) == 7
    assert "b" in leaders
    assert "c" not in leaders
    assert len(leaders) == 2
    assert list(leaders) == list(leaders.keys()) == ["a", "b"]
    assert list(leaders.values()) == [1, None]
    assert list(leaders.items()) == [("a", 1), ("b", None)]
    with pytest.raises(KeyError):
        leaders["c"]


def test_a_past_reads_as_a_mapping(registry: SnapshotRegistry, leaders: TimelineDict[str, int | None]) -> None:
    leaders.update({"kept": 1, "changed": None, "deleted": 3})
    registry.create(10)
    leaders.update([("changed", 2), ("added", 4)])
    del leaders["deleted"]
    registry.create(20)
    leaders["changed"] = 5

    then = leaders.at(10)

    assert isinstance(then, Mapping)
    assert then == {"kept": 1, "changed": None, "deleted": 3}
    assert then["kept"] == 1
    assert then["changed"] is None
    assert then.get("added", 7) == 7
    assert "deleted" in then
    assert "added" not in then
    assert len(then) == 3
    assert sorted(then.items(), key=str) == [("changed", None), ("deleted", 3), ("kept", 1)]
    assert leaders.overwritten_since(20) == {"changed": 2}
    assert set(leaders.overwritten_since(10)) == {"changed", "added", "deleted"}
    with pytest.raises(KeyError):
        then["added"]


def test_deleting_what_is_not_there_changes_nothing(
    registry: SnapshotRegistry, leaders: TimelineDict[str, int | None]
) -> None:
    registry.create(10)

    with pytest.raises(KeyError):
        del leaders["a"]

    assert leaders.pop("a", 7) == 7
    assert leaders.overwritten_since(10) == {}


def test_an_iteration_over_the_past_outlives_changes_of_the_present(registry: SnapshotRegistry) -> None:
    """What a writer of checkpoints does, one slice of time after another."""
    partitions: TimelineDict[int, str] = TimelineDict(registry)
    partitions.update((n, "old") for n in range(10))
    registry.create(10)
    del partitions[9]
    written: dict[int, str] = {}

    for later, (n, value) in enumerate(partitions.at(10).items(), start=11):
        written[n] = value
        partitions[5] = "new"
        partitions[100 + n] = "new"
        partitions.pop(n, None)
        registry.create(later)

    assert written == dict.fromkeys(range(10), "old")


def test_order_is_that_of_insertion_and_a_deleted_key_returns_at_the_end(registry: SnapshotRegistry) -> None:
    brokers: TimelineDict[int, str] = TimelineDict(registry)
    brokers.update({30: "a", 10: "b", 20: "c"})
    registry.create(10)
    del brokers[30]

    assert list(brokers) == [10, 20]

    registry.revert_to(10)

    assert list(brokers) == [10, 20, 30]


def test_a_value_goes_back(registry: SnapshotRegistry) -> None:
    epoch: TimelineValue[int | None] = TimelineValue(registry, None)
    registry.create(10)
    epoch.value = 1
    epoch.value = 2
    registry.create(20)
    epoch.value = None

    assert (epoch.at(10), epoch.at(20), epoch.value) == (None, 2, None)

    registry.revert_to(20)
    assert epoch.value == 2

    registry.revert_to(10)
    assert epoch.value is None


def test_shows_its_contents(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    leaders["a"] = 1
    registry.create(10)

    assert repr(leaders) == "TimelineDict({'a': 1})"
    assert repr(leaders.at(10)) == "<{'a': 1} at offset 10>"
    assert repr(TimelineValue(registry, 7)) == "TimelineValue(7)"
