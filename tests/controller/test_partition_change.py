"""One partition's next registration, against a Kafka release and against the rules that must always hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft import Uuid
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.partition_change import PartitionTarget, Rules, partition_change
from quorate.metadata.partitions import NO_LEADER, RECOVERED, RECOVERING, Partition, merged
from quorate.nouns import parse_uuid
from quorate.records import PartitionChangeRecord

TOPIC = Uuid(bytes(15) + b"\x4d")
ASKED = [
    json.loads(line) for line in (Path(__file__).parent / "kafka/partition_changes.jsonl").read_text().splitlines()
]
FIELDS = {
    "isr": "isr",
    "leader": "leader",
    "replicas": "replicas",
    "removing_replicas": "removingReplicas",
    "adding_replicas": "addingReplicas",
    "leader_recovery_state": "leaderRecoveryState",
    "eligible_leader_replicas": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
}


def partition_of(case: dict[str, Any]) -> Partition:
    given = case["partition"]
    lists = {name: tuple(given[name]) for name in ("replicas", "isr", "removing", "adding", "elr", "last_known_elr")}
    return Partition(
        lists["replicas"],
        tuple(parse_uuid(directory) for directory in given["directories"]),
        lists["isr"],
        lists["removing"],
        lists["adding"],
        lists["elr"],
        lists["last_known_elr"],
        given["leader"],
        RECOVERING if given["recovering"] else RECOVERED,
        3,
        5,
    )


def record_of(case: dict[str, Any]) -> PartitionChangeRecord | None:
    told = case["record"]
    if told is None:
        return None
    values = {ours: told[theirs] for ours, theirs in FIELDS.items() if theirs in told}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if "directories" in told:
        values["directories"] = tuple(parse_uuid(directory) for directory in told["directories"])
    return PartitionChangeRecord(4, TOPIC, **values)


def change_in(case: dict[str, Any]) -> PartitionChangeRecord | None:
    wish = {name: tuple(ids) for name, ids in case["wish"].items() if isinstance(ids, list)}
    return partition_change(
        partition_of(case),
        TOPIC,
        4,
        PartitionTarget(
            isr=wish.get("isr"),
            replicas=wish.get("replicas"),
            adding=wish.get("adding"),
            removing=wish.get("removing"),
            unclean_shutdown=frozenset(wish.get("unclean_shutdown", ())),
            recovered=case["wish"].get("recovered", False),
            election=Election[case["election"]],
        ),
        Rules(
            level=case["level"],
            elr_enabled=case["elr_enabled"],
            min_isr=case["min_isr"],
            is_acceptable=set(case["acceptable"]).__contains__,
            default_directory=lambda broker: Uuid((1 << 64 | broker).to_bytes(16, "big")),
        ),
    )


def after(partition: Partition, change: PartitionChangeRecord | None) -> Partition:
    return partition if change is None else merged(partition, change)


def as_we_keep_it(case: dict[str, Any], partition: Partition) -> Partition:
    """Kafka may keep in the ELR, or as last leader, who is no replica any more, even -1; in the ELR who has just been
    outrun by an ISR of sufficient size; and as last leader who led before the last one. We do neither."""
    before = partition_of(case)
    outrun = case["elr_enabled"] and len(partition.isr) >= case["min_isr"]
    last_known = partition.last_known_elr
    if before.leader != NO_LEADER and partition.leader == NO_LEADER:
        last_known = (before.leader,) if case["elr_enabled"] else ()
    return msgspec.structs.replace(
        partition,
        elr=tuple(broker for broker in partition.elr if broker in partition.replicas and not outrun),
        last_known_elr=tuple(broker for broker in last_known if broker in partition.replicas),
    )


def ends_too_soon(case: dict[str, Any], theirs: Partition) -> bool:
    """Kafka ends a reassignment that leaves fewer copies than there were, and than min.insync.replicas. We wait."""
    before = partition_of(case)
    has_ended = theirs.replicas != before.replicas and "replicas" not in case["wish"]
    return has_ended and len(theirs.isr) < min(case["min_isr"], len(theirs.replicas), len(before.isr))


@pytest.mark.parametrize("case", ASKED, ids=[str(number) for number in range(len(ASKED))])
def test_changes_a_partition_as_a_released_kafka_does(case: dict[str, Any]) -> None:
    theirs, ours = after(partition_of(case), record_of(case)), after(partition_of(case), change_in(case))
    if ends_too_soon(case, theirs):
        assert ours == partition_of(case)
    elif theirs == as_we_keep_it(case, theirs):
        assert record_of(case) == change_in(case)
    else:
        assert as_we_keep_it(case, theirs) == msgspec.structs.replace(ours, partition_epoch=theirs.partition_epoch)


def test_the_corner_in_which_we_differ_is_small() -> None:
    differing = [case for case in ASKED if record_of(case) != change_in(case)]

    assert 0 < len(differing) < 0.04 * len(ASKED)


def test_a_released_kafka_was_asked_of_last_leaders_while_the_elr_is_off_and_while_others_lead() -> None:
    remembered = [
        (case["elr_enabled"], case["partition"]["leader"] != NO_LEADER)
        for case in ASKED
        if case["partition"]["last_known_elr"]
    ]

    assert {(True, True), (True, False), (False, True), (False, False)} == set(remembered)


@st.composite
def anything(draw: st.DrawFn) -> tuple[Partition, PartitionTarget, Rules]:
    """A partition that could be, a wish that a command could have, and rules."""
    replicas = tuple(draw(st.permutations(range(6)))[: draw(st.integers(1, 5))])
    elr_enabled = draw(st.booleans())
    level = draw(st.sampled_from((7, 12, 17, 23, 33))) if not elr_enabled else 33
    min_isr = draw(st.integers(1, len(replicas)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=0 if elr_enabled else 1, unique=True)))
    outside = [broker for broker in replicas if broker not in isr]
    short = elr_enabled and len(isr) < min_isr
    elr = tuple(sorted(draw(st.sets(st.sampled_from(outside))))) if short and outside else ()
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    last_known = draw(st.sampled_from(((), (outside[0],)))) if short and outside and leader == NO_LEADER else ()
    gone = draw(st.sets(st.integers(0, 6)))
    directories = tuple(Uuid((5 << 64 | broker).to_bytes(16, "big")) for broker in replicas)
    unclean = frozenset(draw(st.sets(st.sampled_from(replicas), max_size=1))) if elr_enabled else frozenset()
    out = gone | unclean
    wish = PartitionTarget(
        isr=tuple(broker for broker in isr if broker not in out),
        unclean_shutdown=unclean,
        election=draw(st.sampled_from(Election)),
    )
    rules = Rules(
        level=level,
        elr_enabled=elr_enabled,
        min_isr=min_isr,
        is_acceptable=lambda broker: broker not in out,
        default_directory=lambda broker: Uuid((6 << 64 | broker).to_bytes(16, "big")),
    )
    return Partition(replicas, directories, isr, (), (), elr, last_known, leader, RECOVERED, 3, 5), wish, rules


@given(anything())
def test_what_comes_out_is_a_partition_that_may_be(drawn: tuple[Partition, PartitionTarget, Rules]) -> None:
    partition, wish, rules = drawn
    change = partition_change(partition, TOPIC, 0, wish, rules)
    new = after(partition, change)
    isr, elr, last_known, replicas = set(new.isr), set(new.elr), set(new.last_known_elr), set(new.replicas)

    assert isr | elr | last_known <= replicas  # I-46
    assert new.leader == NO_LEADER or new.leader in isr  # I-47
    assert isr or (rules.elr_enabled and new.leader == NO_LEADER)  # I-47
    assert not isr & elr  # I-48
    assert not isr & last_known  # I-48
    assert len(isr) < rules.min_isr or not (elr or last_known)  # I-49
    assert new.partition_epoch == partition.partition_epoch + (change is not None)  # I-50
    assert new.leader == partition.leader or new.leader_epoch == partition.leader_epoch + 1  # I-51
    assert new.leader_epoch - partition.leader_epoch in (0, 1)  # I-51
    assert new.leader == NO_LEADER or rules.is_acceptable(new.leader)  # I-53
    assert wish.unclean_shutdown.isdisjoint(elr)  # I-57


@given(anything())
def test_a_clean_election_is_from_who_has_everything(drawn: tuple[Partition, PartitionTarget, Rules]) -> None:
    """I-54: from the ISR, else the ELR; anybody else makes it recover, alone."""
    partition, wish, rules = drawn
    new = after(partition, partition_change(partition, TOPIC, 0, wish, rules))
    if new.leader in (NO_LEADER, partition.leader):
        return
    complete = {*partition.isr, *partition.elr} - wish.unclean_shutdown

    assert new.leader in complete or new.isr == (new.leader,)
    assert (new.leader_recovery_state == RECOVERING) == (new.leader not in complete)


@given(anything())
def test_a_wish_that_is_granted_needs_no_second_record(drawn: tuple[Partition, PartitionTarget, Rules]) -> None:
    partition, wish, rules = drawn
    new = after(partition, partition_change(partition, TOPIC, 0, wish, rules))
    nothing_more = PartitionTarget(unclean_shutdown=wish.unclean_shutdown, election=wish.election)

    assert partition_change(new, TOPIC, 0, nothing_more, rules) is None


@pytest.mark.parametrize(
    ("isr", "elr", "min_isr", "ends"),
    [
        ((2, 4), (), 2, True),  # both stay
        ((3, 4), (), 2, False),  # 4 alone would have what 3 and 4 have acknowledged
        ((3, 4), (), 1, True),  # one is enough
        ((4,), (), 2, True),  # it is the only one already
        ((4,), (2,), 2, True),  # 2 has everything, too, and stays
        ((4,), (3,), 2, False),  # 3 has everything, too, and would go
    ],
)
@pytest.mark.parametrize("comes", [False, True], ids=["in sync", "coming into the ISR"])
def test_a_reassignment_ends_once_as_many_have_everything_as_without_it(
    isr: tuple[int, ...], elr: tuple[int, ...], min_isr: int, ends: bool, comes: bool
) -> None:
    """Of 1, 2, 3 the third is replaced by 4. With fewer copies one unclean stop could lose what is acknowledged."""
    before = tuple(each for each in isr if each != 4) if comes else isr
    leader = before[0] if before else NO_LEADER
    partition = Partition((1, 2, 4, 3), (Uuid(bytes(16)),) * 4, before, (3,), (4,), elr, (), leader, RECOVERED, 0, 0)
    rules = Rules(
        level=29,
        elr_enabled=True,
        min_isr=min_isr,
        is_acceptable=lambda _: True,
        default_directory=lambda _: Uuid(bytes(16)),
    )
    new = after(partition, partition_change(partition, TOPIC, 0, PartitionTarget(isr=isr), rules))

    assert ends == (not new.is_reassigning)
    assert ((1, 2, 4) if ends else partition.replicas) == new.replicas
    assert len({*new.isr, *new.elr}) >= min(min_isr, len({*isr, *elr}))


# Story by story: replicas, ISR, leader → what is wished → what is written.

TOLD = (
    "the leader goes, the next in order leads (KIP-631)",
    "the last in sync goes: nobody leads, it stays in the ISR",
    "the same with ELR: the ISR is empty, it stays eligible (KIP-966)",
)


@pytest.mark.parametrize(
    ("elr_enabled", "isr", "gone", "expected"),
    [
        (False, (1, 2, 3), 1, {"isr": (2, 3), "leader": 2}),
        (False, (1,), 1, {"leader": NO_LEADER}),
        (True, (1,), 1, {"isr": (), "leader": NO_LEADER, "eligible_leader_replicas": (1,), "last_known_elr": (1,)}),
    ],
    ids=TOLD,
)
def test_a_broker_goes(elr_enabled: bool, isr: tuple[int, ...], gone: int, expected: dict[str, Any]) -> None:
    partition = Partition((1, 2, 3), (Uuid(bytes(16)),) * 3, isr, (), (), (), (), isr[0], RECOVERED, 0, 0)
    rules = Rules(
        level=25,
        elr_enabled=elr_enabled,
        min_isr=2,
        is_acceptable=lambda broker: broker != gone,
        default_directory=lambda _: Uuid(bytes(16)),
    )
    wish = PartitionTarget(isr=tuple(broker for broker in isr if broker != gone))

    assert partition_change(partition, TOPIC, 0, wish, rules) == PartitionChangeRecord(0, TOPIC, **expected)
