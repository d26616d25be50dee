"""Kafka's placement: its laws on random clusters, and the same placements from a naive twin."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.placement import PlacementSpec, Racks, Replicas, UsableBroker, place


class NaivePlacer:
    """The rules read aloud: lists, epochs and nothing clever. Draws in the documented order."""

    def __init__(self, brokers: list[UsableBroker], chance: random.Random) -> None:
        self.chance = chance
        self.epoch = 0
        self.racks = []
        for name in sorted({broker.rack for broker in brokers}, key=lambda name: (name is not None, name or "")):
            members = [broker for broker in brokers if broker.rack == name]
            self.racks.append([self.ring(members, fenced=False), self.ring(members, fenced=True)])
        self.offset = chance.randrange(len(self.racks))
        self.unfenced_count = sum(not broker.fenced for broker in brokers)

    def ring(self, members: list[UsableBroker], *, fenced: bool) -> dict[str, object]:
        ids = sorted(broker.id for broker in members if broker.fenced == fenced)
        return {"ids": ids, "offset": self.chance.randrange(len(ids)) if ids else 0, "epoch": None, "given": []}

    def next_of(self, ring: dict[str, object]) -> int | None:
        ids, given = ring["ids"], ring["given"]
        if ring["epoch"] != self.epoch:
            if ring["epoch"] is not None:
                ring["offset"] += 1
            ring["epoch"], given[:] = self.epoch, []
        for step in range(len(ids)):
            broker = ids[(ring["offset"] + step) % len(ids)]
            if broker not in given:
                given.append(broker)
                return broker
        return None

    def partition(self, replication_factor: int) -> Replicas:
        if self.epoch == self.unfenced_count > 1:
            self.chance.shuffle(self.racks)
            for rack in self.racks:
                for ring in rack:
                    self.chance.shuffle(ring["ids"])
                    ring.update(offset=0, epoch=None, given=[])
            self.epoch = 0
        at = self.offset
        while not self.racks[at % len(self.racks)][0]["ids"]:
            at += 1
        replicas = [self.next_of(self.racks[at % len(self.racks)][0])]
        skip = at % len(self.racks)
        at = self.offset
        while len(replicas) < replication_factor:
            if at % len(self.racks) == skip:
                skip = None
            else:
                unfenced, fenced = self.racks[at % len(self.racks)]
                broker = self.next_of(unfenced)
                if broker is None:
                    broker = self.next_of(fenced)
                if broker is not None:
                    replicas.append(broker)
            at += 1
        self.epoch += 1
        self.offset += 1
        return tuple(replicas)


@st.composite
def clusters(draw: st.DrawFn) -> list[UsableBroker]:
    """1 to 24 brokers in up to 6 racks, of any shape, with at least one that is not fenced."""
    names = draw(st.sampled_from([(None,), ("a",), ("a", "b"), ("a", "b", "c"), (None, "a", "b", "c", "d", "e")]))
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=24, unique=True))
    often_fenced = draw(st.sampled_from([0, 1, 5, 9]))
    brokers = [
        UsableBroker(id=id, rack=draw(st.sampled_from(names)), fenced=draw(st.integers(1, 10)) <= often_fenced)
        for id in ids[1:]
    ]
    return [*brokers, UsableBroker(id=ids[0], rack=draw(st.sampled_from(names)))]


@st.composite
def tasks(draw: st.DrawFn) -> tuple[list[UsableBroker], PlacementSpec, int]:
    brokers = draw(clusters())
    spec = PlacementSpec(
        start_partition=draw(st.sampled_from([0, 7])),
        partition_count=draw(st.integers(1, 80)),
        replication_factor=draw(st.integers(1, min(len(brokers), 7)) | st.just(len(brokers))),
    )
    return brokers, spec, draw(st.integers(0, 2**32))


def as_even_as_possible(counts: Counter[str | None], sizes: Counter[str | None]) -> bool:
    """No rack has two more than another that still had a broker to give."""
    return all(counts[more] <= counts[less] + 1 for more in sizes for less in sizes if counts[less] < sizes[less])


@settings(max_examples=400, deadline=None)
@given(tasks())
def test_each_partition_is_well_placed(task: tuple[list[UsableBroker], PlacementSpec, int]) -> None:
    """I-63: distinct usable brokers, the first one unfenced, racks as even as possible."""
    brokers, spec, seed = task
    by_id = {broker.id: broker for broker in brokers}
    sizes = Counter(broker.rack for broker in brokers)

    placed = place(spec, Racks.of(brokers), random.Random(seed))

    assert len(spec.partition_ids) == len(placed)
    for replicas in placed:
        assert len(replicas) == spec.replication_factor
        assert len(set(replicas)) == spec.replication_factor
        assert set(replicas) <= set(by_id)
        assert not by_id[replicas[0]].fenced
        assert as_even_as_possible(Counter(by_id[id].rack for id in replicas), sizes)


@settings(max_examples=400, deadline=None)
@given(tasks())
def test_a_fenced_broker_comes_after_the_unfenced_ones_of_its_rack(
    task: tuple[list[UsableBroker], PlacementSpec, int],
) -> None:
    brokers, spec, seed = task
    by_id = {broker.id: broker for broker in brokers}

    for replicas in place(spec, Racks.of(brokers), random.Random(seed)):
        for position, id in enumerate(replicas):
            if by_id[id].fenced:
                unfenced = {b.id for b in brokers if b.rack == by_id[id].rack and not b.fenced}
                assert unfenced <= set(replicas[:position])


@settings(max_examples=1500, deadline=None)
@given(tasks())
def test_agrees_with_the_rules_read_aloud(task: tuple[list[UsableBroker], PlacementSpec, int]) -> None:
    brokers, spec, seed = task
    naive = NaivePlacer(brokers, random.Random(seed))
    expected = tuple(naive.partition(spec.replication_factor) for _ in spec.partition_ids)

    assert expected == place(spec, Racks.of(brokers), random.Random(seed))


def test_agrees_with_the_rules_read_aloud_on_every_small_even_cluster() -> None:
    """All shapes in which slices are cut: racks × brokers a rack × replication factor, over several cycles."""
    for rack_count in range(1, 7):
        for size in range(1, 5):
            brokers = [UsableBroker(id=id, rack=f"r{id % rack_count}") for id in range(rack_count * size)]
            racks = Racks.of(brokers)
            for replication_factor in range(1, len(brokers) + 1):
                for count in (1, 2, 3 * len(brokers) + 1):
                    seed = hash((rack_count, size, replication_factor, count))
                    naive = NaivePlacer(brokers, random.Random(seed))
                    expected = tuple(naive.partition(replication_factor) for _ in range(count))
                    spec = PlacementSpec(partition_count=count, replication_factor=replication_factor)

                    assert expected == place(spec, racks, random.Random(seed)), (rack_count, size, replication_factor)


@settings(max_examples=200, deadline=None)
@given(tasks(), st.randoms(use_true_random=False))
def test_the_same_seed_places_alike_whatever_the_order_of_the_brokers(
    task: tuple[list[UsableBroker], PlacementSpec, int], order: random.Random
) -> None:
    brokers, spec, seed = task
    shuffled = order.sample(brokers, len(brokers))

    assert place(spec, Racks.of(brokers), random.Random(seed)) == place(spec, Racks.of(shuffled), random.Random(seed))


@settings(max_examples=200, deadline=None)
@given(tasks())
def test_a_placement_leaves_its_racks_as_they_were(task: tuple[list[UsableBroker], PlacementSpec, int]) -> None:
    """One `Racks` serves all topics that are placed while the broker set stands."""
    brokers, spec, seed = task
    racks = Racks.of(brokers)

    place(spec, racks, random.Random(seed))

    assert Racks.of(brokers) == racks


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.data(),
)
def test_leaders_go_round_the_racks(rack_count: int, size: int, cycles: int, seed: int, data: st.DataObject) -> None:
    """In equal racks each cycle gives each rack as many leaders, and each broker about as many replicas."""
    brokers = [UsableBroker(id=id, rack=f"r{id % rack_count}") for id in range(rack_count * size)]
    replication_factor = data.draw(st.integers(1, len(brokers)))
    spec = PlacementSpec(partition_count=cycles * len(brokers), replication_factor=replication_factor)

    placed = place(spec, Racks.of(brokers), random.Random(seed))

    leaders = Counter(replicas[0] % rack_count for replicas in placed)
    assert leaders == dict.fromkeys(range(rack_count), cycles * size)
    laps, rest = divmod(replication_factor, rack_count)
    for start in range(0, len(placed), len(brokers)):
        held = Counter(id for replicas in placed[start : start + len(brokers)] for id in replicas)
        if not laps or not rest:
            assert held == {broker.id: replication_factor for broker in brokers}
        else:  # who gets the replicas of the last, unfinished lap depends on how ring and racks fit together
            assert all(laps * rack_count <= held[broker.id] <= (laps + 1) * rack_count for broker in brokers)


@pytest.mark.parametrize(
    ("brokers", "replication_factor"),
    [
        ([UsableBroker(id=id, rack=f"r{id % 3}") for id in range(12)], 3),
        ([UsableBroker(id=id) for id in range(10)], 2),
        ([UsableBroker(id=id, rack=f"r{id % 2}", fenced=id == 1) for id in range(9)], 4),
    ],
    ids=["racks", "no racks", "one fenced"],
)
def test_over_many_partitions_each_broker_leads_about_as_many(
    brokers: list[UsableBroker], replication_factor: int
) -> None:
    """The shuffles even out what one cycle cannot: over 6,000 partitions within a quarter of the rack's mean."""
    spec = PlacementSpec(partition_count=6_000, replication_factor=replication_factor)
    unfenced = [broker for broker in brokers if not broker.fenced]
    by_rack: dict[str | None, list[int]] = defaultdict(list)
    for broker in unfenced:
        by_rack[broker.rack].append(broker.id)

    leaders = Counter(replicas[0] for replicas in place(spec, Racks.of(brokers), random.Random(5)))

    for ids in by_rack.values():
        mean = 6_000 / len(by_rack) / len(ids)
        for id in ids:
            assert 0.75 * mean < leaders[id] < 1.25 * mean, (id, leaders[id], mean)


def test_small_topics_do_not_all_begin_at_the_same_broker() -> None:
    """The entry points are drawn anew for each topic."""
    racks = Racks.of(UsableBroker(id=id, rack=f"r{id % 3}") for id in range(9))
    chance = random.Random(5)
    spec = PlacementSpec(partition_count=1, replication_factor=3)

    leaders = Counter(place(spec, racks, chance)[0][0] for _ in range(900))

    assert set(leaders) == set(range(9))
    assert all(60 < count < 140 for count in leaders.values()), leaders


def test_long_topics_do_not_repeat_their_first_cycle() -> None:
    racks = Racks.of(UsableBroker(id=id, rack=f"r{id % 3}") for id in range(12))

    placed = place(PlacementSpec(partition_count=24, replication_factor=3), racks, random.Random(5))

    assert placed[:12] != placed[12:]


@given(st.integers(1, 50), st.integers(0, 99))
@example(50, 0)
def test_a_single_unfenced_broker_leads_everything(partition_count: int, seed: int) -> None:
    brokers = [UsableBroker(id=id, rack="ab"[id % 2], fenced=id != 4) for id in range(5)]
    spec = PlacementSpec(partition_count=partition_count, replication_factor=3)

    assert {4} == {replicas[0] for replicas in place(spec, Racks.of(brokers), random.Random(seed))}


@pytest.mark.parametrize("fenced_count", [0, 3])
def test_one_broker_alone_gets_every_partition(fenced_count: int) -> None:
    brokers = [UsableBroker(id=7), *(UsableBroker(id=id, fenced=True) for id in range(fenced_count))]
    spec = PlacementSpec(partition_count=4, replication_factor=1)

    assert place(spec, Racks.of(brokers), random.Random(1)) == ((7,),) * 4
