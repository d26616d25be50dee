"""`quorate doctor`: on the logs by which the pipeline's doctor is held, it says the same as that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from quorate.doctor import HISTORY_CODES, BrokerPast, Condition, Facts, Moment, PartitionPast, Past, Unclean, examine
from quorate.doctor.census import count_partitions
from quorate.doctor.partitions import PARTITION_RULES, Standing
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from tests.cli.directories import CLUSTER_ID, FIXTURES, run
from tests.cli.test_what_if import many_of_a_kind
from tests.pipeline.hand_made import Story, change, fenced, topic
from tests.pipeline.illnesses import CASES, OTHERS_WELL, Case, sound
from tests.pipeline.logs import NOON_MS
from tests.pipeline.near_illnesses import FOUND, NOT_FOUND, Logs

HERE = [case for case in CASES if case.code not in HISTORY_CODES]


def diagnosed(path: Path, story: Story) -> list[Any]:  # Any: JSON values
    """The findings on the log of a story; the exit code says whether an error is among them."""
    story.write(path, CLUSTER_ID)
    (directory,) = {found.parent.parent for found in path.rglob("*.log")}
    ran = run("doctor", "--offline", directory, "--json")
    found: list[Any] = ran.document["findings"]
    assert (int(any(each["severity"] == "error" for each in found)), "") == (ran.code, ran.err), ran
    return found


def in_one_state(sentence: str) -> str:
    """Without what the history adds: since when an ISR is as it is."""
    return re.sub(r", until [^;]* it was [0-9,]+", "", sentence)


def test_what_one_state_does_not_have_is_the_rest() -> None:
    assert len(CASES) == len(HERE) + len(HISTORY_CODES)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.code)
def test_a_log_that_has_it_is_told_of_as_by_the_pipeline(tmp_path: Path, case: Case) -> None:
    rows = [each for each in diagnosed(tmp_path, case.ill()) if each["code"] == case.code]

    assert [(case.severity, case.subject, in_one_state(case.sentence))] == [
        (each["severity"], each["subject"], each["sentence"]) for each in rows
    ]
    assert all(each["advice"] for each in rows)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.code)
def test_a_log_that_nearly_has_it_is_not(tmp_path: Path, case: Case) -> None:
    assert [] == [each for each in diagnosed(tmp_path, case.well()) if each["code"] == case.code]


@pytest.mark.parametrize("story", OTHERS_WELL.values(), ids=OTHERS_WELL)
def test_nothing_is_said_of_a_sound_cluster(tmp_path: Path, story: Callable[[], Story]) -> None:
    assert [] == diagnosed(tmp_path, story())


def each_log(logs: Mapping[str, Logs]) -> list[Any]:
    return [
        pytest.param(code, story, id=f"{code} {name}")
        for code, some in logs.items()
        for name, story in some.items()
        if code not in HISTORY_CODES
    ]


@pytest.mark.parametrize(("code", "story"), each_log(FOUND))
def test_these_have_it_too(tmp_path: Path, code: str, story: Callable[[], Story]) -> None:
    assert code in {each["code"] for each in diagnosed(tmp_path, story())}


@pytest.mark.parametrize(("code", "story"), each_log(NOT_FOUND))
def test_these_have_it_not(tmp_path: Path, code: str, story: Callable[[], Story]) -> None:
    assert code not in {each["code"] for each in diagnosed(tmp_path, story())}


def test_of_a_kafkas_log_as_text() -> None:
    ran = run("doctor", "--offline", FIXTURES / "three-dynamic/controller-3")

    assert (1, "") == (ran.code, ran.err)
    first, *lines = ran.out.splitlines()
    assert re.fullmatch(r"As of offset 239: \d+ error, \d+ warn, \d+ info", first)
    severities = [line.split()[0] for line in lines if line[:5].strip() in ("error", "warn", "info")]
    assert sorted(severities, key=["error", "warn", "info"].index) == severities
    assert "warn   FENCED_WITH_REPLICAS  broker 4: is fenced and holds" in ran.out


def test_advice_is_what_can_be_done_now() -> None:
    """Both brokers are away, of one of them all directories are cordoned, and there is no third."""
    found = run("doctor", "--offline", FIXTURES / "three-dynamic/controller-3", "--json").document["findings"]
    advice = {(each["code"], each["subject"]): each["advice"] for each in found}

    assert "start broker 4, which may lead (ISR or ELR)" == advice["NO_LEADER", "partition cleared-0"]
    assert advice["UNDER_MIN_ISR", "partition cleared-0"].endswith("; then start broker 5")
    assert advice["ONE_REPLICA", "topic plain"].startswith(
        "first start brokers 4,5 and uncordon a log directory of broker 5, then add replicas"
    )
    # Of topic single one partition is on broker 5 alone, and broker 4 could take a replica of it.
    assert advice["ONE_REPLICA", "topic single"].startswith("first start brokers 4,5, then add replicas")
    assert advice["FENCED_WITH_REPLICAS", "broker 4"].endswith("so they cannot be moved now")


def test_a_replica_to_be_added_that_is_none_ends_no_examination(tmp_path: Path) -> None:
    """No controller writes that, but a log may have it."""
    found = diagnosed(tmp_path, sound(*topic("t", [4, 5]), change("t", replicas=(4, 5), adding_replicas=(9,))))

    assert "REASSIGNMENT_STUCK" not in {each["code"] for each in found}


def test_of_a_known_past_it_says_since_when_and_what_only_the_past_has() -> None:
    story = sound(fenced(6), *topic("t", [4, 5]), change("t", replicas=(4, 5, 6), adding_replicas=(6,)))
    state = ClusterState()
    state.apply_all([each.record for each in story.logged() if each.record is not None], 0)
    named = state.topics.by_name("t")
    assert named is not None
    day_ms = 86_400_000
    began = Moment(7, NOON_MS - 10 * day_ms)
    past = Past(
        moments={(Condition.FENCED.value, "broker 6"): began, (Condition.MOVING.value, "partition t-0"): began},
        brokers={6: BrokerPast(fencings=3, gone=began, words="broker 6 was fenced long ago")},
        partitions={(named.id, 0): PartitionPast(unclean=Unclean(leader=5, at=began, count=2))},
    )
    facts = Facts(state=state, voters=None, kraft_version=None, now_ms=NOON_MS, past=past)
    found = {each.code: (each.sentence, each.since) for each in examine(facts)}

    assert ("has been fenced for 10.0 days", began) == found["STALE_REGISTRATION"]
    assert "has been reassigned for 240.0 hours: adding 6, removing none" == found["REASSIGNMENT_SLOW"][0]
    assert "was fenced 3 times within a day" == found["FLAPPING"][0]
    assert "in the last of 2 unclean elections" in found["UNCLEAN_ELECTION"][0]
    assert not {*HISTORY_CODES} & {each.code for each in examine(replace(facts, past=Past()))}


@pytest.mark.parametrize("seed", range(4))
def test_the_census_counts_what_each_partition_is_asked(seed: int) -> None:
    state = many_of_a_kind(seed)
    fourth = state.brokers.record(4, LATEST)
    assert fourth is not None
    state.apply(structs.replace(fourth, rack="c", broker_epoch=500), 500)  # a third rack, so that two are too few
    census = count_partitions(state)
    racks = {broker.id: broker.rack for broker in state.brokers}
    there = len({*racks.values()} - {None})
    on = {
        topic.id: [[racks.get(replica) for replica in each.replicas] for each in topic.partitions.values()]
        for topic in state.topics
    }

    assert {
        topic: [len({*each}) for each in those if None not in each and len({*each}) < min(len(each), there)]
        for topic, those in on.items()
    } == {each.topic.id: each.crowded for each in census.topics}
    assert {
        topic.id: (min(map(len, on[topic.id])), sum(len(each) == 1 for each in on[topic.id])) for topic in state.topics
    } == {each.topic.id: (each.fewest, each.single) for each in census.topics}
    for counted, places in ((census.replicas, 9), (census.preferred, 1)):
        assert counted == Counter(
            (replica, partition.directory_of(replica))
            for _, _, partition in state.topics.all()
            for replica in partition.replicas[:places]
        )
    facts = Facts(state=state, voters=None, kraft_version=0, now_ms=0)
    unsound = {(each.topic.id, partition_id) for each in census.topics for partition_id, _ in each.unsound}
    well = [each for each in state.topics.all() if (each.topic.id, each.partition_id) not in unsound]
    assert well
    for each in well:
        assert not [rule.code for rule in PARTITION_RULES if rule.holds(Standing(facts, *each))]
