"""`quorate features plan`: the controller refuses for what it names; once that is cleared, it writes what is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.cli.failures import Misused
from quorate.cli.features_plan import plan
from quorate.cli.offline import Offline
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.commands.update_features import Kind, UpgradeType, update_features
from quorate.controller.engine.decision import Command
from quorate.metadata.configs import BROKER
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import OffsetAndEpoch
from quorate.records import ConfigRecord, FeatureLevelRecord
from quorate.what_if.feature_levels import levels_of, plan_levels
from tests.cli.directories import FIXTURES, run, write_checkpoint
from tests.controller.clusters import Cluster, uuid

OfBroker, OfController = BrokerRegistrationRequest.Feature, ControllerRegistrationRequest.Feature
ELR, GROUP, SHARE = "eligible.leader.replicas.version", "group.version", "share.version"
NEW = {METADATA_VERSION: (7, 33), ELR: (0, 1), GROUP: (0, 1), SHARE: (0, 2), "streams.version": (0, 1)}
NEW |= {"transaction.version": (0, 2), "kraft.version": (0, 1)}


def a_cluster(seed: int) -> Cluster:
    """Brokers 1 to 4, of which 3 and 4 are fenced and 4 has no replicas, controllers 11 and 12; some are older."""
    draw = Random(seed)
    cluster = Cluster(draw.choice((25, 29)))
    for broker_id in (1, 2, 3, 4):
        register(cluster, broker_id, some_ranges(draw))
        if broker_id < 3:
            cluster.unfence(broker_id)
    cluster.topic("orders", (1, 2, 3))
    for node_id in (11, 12):
        enrol(cluster, node_id, some_ranges(draw))
    if draw.random() < 0.5:
        cluster.apply([ConfigRecord(BROKER, "2", "min.insync.replicas", "2")])
    return cluster


def some_ranges(draw: Random) -> dict[str, tuple[int, int]]:
    older = {METADATA_VERSION: (7, draw.choice((29, 30, 33))), GROUP: (0, 1), "kraft.version": (0, 1)}
    return draw.choice((NEW, older, {**older, ELR: (0, 1)}))


def register(cluster: Cluster, broker_id: int, ranges: dict[str, tuple[int, int]]) -> None:
    features = tuple(OfBroker(name, *each) for name, each in ranges.items())
    cluster.register(broker_id, incarnation=cluster.next_offset, features=features)


def enrol(cluster: Cluster, node_id: int, ranges: dict[str, tuple[int, int]]) -> None:
    features = tuple(OfController(name, *each) for name, each in ranges.items())
    listeners = (ControllerRegistrationRequest.Listener("CONTROLLER", "c", 9093, 0),)
    cluster.write(
        register_controller(
            ControllerRegistrationRequest(node_id, uuid(cluster.next_offset), listeners=listeners, features=features)
        )
    )


def planned(cluster: Cluster, path: Path, *options: object) -> Any:  # Any: JSON values
    write_checkpoint(path, cluster.state, OffsetAndEpoch(epoch=1, offset=cluster.next_offset))
    ran = run("features", "plan", "--offline", path, "--json", *options)
    document = ran.document
    assert (int(any(each["blocked"] for each in document["features"])), "") == (ran.code, ran.err), ran
    return document


def updating(cluster: Cluster, document: Any) -> Command[Any]:
    """What the commands of the document ask for, in one request."""
    keys = []
    for each in document["features"]:
        verb = "downgrade" if each["wanted"] < each["present"] else "upgrade"
        assert f" {verb} --" in each["command"]
        how = UpgradeType.UPGRADE if verb == "upgrade" else UpgradeType.SAFE_DOWNGRADE
        keys.append(UpdateFeaturesRequest.FeatureUpdateKey(each["feature"], each["wanted"], upgrade_type=int(how)))
    request = UpdateFeaturesRequest(feature_updates=tuple(keys))
    return update_features(request, kraft_version=0, voters=(), settings=cluster.settings)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [(), ("--release", "4.2"), ("-f", f"{ELR}=1"), ("-f", f"{GROUP}=1")], ids=str)
def test_the_controller_refuses_for_what_is_named_and_not_once_that_is_cleared(
    tmp_path: Path, options: Sequence[object], seed: int
) -> None:
    cluster = a_cluster(seed)
    document = planned(cluster, tmp_path, *options)
    blocked = [each for feature in document["features"] for each in feature["blocked"]]

    if blocked:
        assert blocked[0]["why"] in cluster.refusal(updating(cluster, document)).message
        assert document["records"] == []
    for each in blocked:
        assert each["kind"] == Kind.RANGE.name
        kind, _, number = each["node"].partition(" ")
        if kind == "controller":
            assert f"restart controller {number} with newer software" == each["clear"]
            enrol(cluster, int(number), NEW)
        elif number == "4":
            assert ("--id 4" in each["clear"]) > ("move" in each["clear"])
            if 4 in cluster.state.brokers:
                cluster.write(unregister_broker(UnregisterBrokerRequest(4), settings=cluster.settings))
        else:
            assert f"restart broker {number} with newer software" in each["clear"]
            assert ("quorate reassign plan --drain 3" in each["clear"]) == (number == "3")
            register(cluster, int(number), NEW)
    cleared = planned(cluster, tmp_path, *options)
    assert [] == [each for feature in cleared["features"] for each in feature["blocked"]]
    decision = cluster.decide(updating(cluster, cleared))
    assert len(decision.records) == len(cleared["records"]) > 0
    cluster.apply(decision.records)
    for each in cleared["features"]:
        assert each["wanted"] == cluster.state.features.level(each["feature"])
    assert {"name": ELR, "featureLevel": 1} in [each["data"] for each in cleared["records"]] or f"{ELR}=1" not in str(
        options
    )


@pytest.mark.parametrize("seed", range(6))
def test_each_node_whose_range_is_too_small_is_named_once(tmp_path: Path, seed: int) -> None:
    cluster = a_cluster(seed)
    document = planned(cluster, tmp_path)
    state = cluster.state
    nodes = [(f"broker {each.id}", each.features) for each in state.brokers]
    nodes += [(f"controller {each.controller_id}", each.features) for each in state.controllers]

    for feature in document["features"]:
        expected = {}
        for node, declared in nodes:
            ranges = {each.name: [each.min_supported_version, each.max_supported_version] for each in declared}
            lowest, highest = ranges.get(feature["feature"], [0, 0])
            if not lowest <= feature["wanted"] <= highest:
                expected[node] = [lowest, highest]
        assert expected == {each["node"]: each["supported"] for each in feature["blocked"]}
        assert len(expected) == len(feature["blocked"])


def test_a_downgrade_says_what_would_be_lost_and_how_low_it_can_go(tmp_path: Path) -> None:
    cluster = Cluster(29, elr=True)
    (found,) = planned(cluster, tmp_path, "--feature", f"{METADATA_VERSION}=3.9")["features"]
    (lost,) = found["blocked"]

    assert ("LOSES", "metadata that 4.0-IV1 brought would be lost; no such downgrade is supported") == (
        lost["kind"],
        lost["why"],
    )
    assert "the lowest that 29 (4.2-IV1) can go to is 4.0-IV1" in lost["clear"]
    lowest = planned(cluster, tmp_path, "--feature", f"{METADATA_VERSION}=4.0-IV1")
    cluster.write(updating(cluster, lowest))
    assert 23 == cluster.state.features.level(METADATA_VERSION)


def test_what_another_feature_has_to_be_comes_with_the_command_that_raises_it(tmp_path: Path) -> None:
    cluster = Cluster(22)
    (found,) = planned(cluster, tmp_path, "--feature", f"{ELR}=1")["features"]
    (needed,) = found["blocked"]

    assert "NEEDS" == needed["kind"]
    assert "kafka-features.sh --bootstrap-server HOST:PORT upgrade --metadata 4.0-IV1" == needed["clear"]
    both = planned(cluster, tmp_path, "--feature", f"{ELR}=1", "--feature", f"{METADATA_VERSION}=4.0-IV1")
    cluster.write(updating(cluster, both))
    assert 1 == cluster.state.features.level(ELR)


def test_a_voter_that_has_not_registered_is_named_by_its_id() -> None:
    cluster = a_cluster(0)
    plans, records = plan_levels(cluster.state, {GROUP: 1}, kraft_version=1, voters=[11, 13], settings=cluster.settings)

    assert ["controller 13"] == [each.node for plan in plans for each in plan.blocked if each.kind is Kind.UNREGISTERED]
    assert "start controller 13; if it is gone for good, kafka-metadata-quorum.sh remove-controller" in (
        plans[0].blocked[-1].clear
    )
    assert () == records


def test_of_a_release_all_features_are_asked_for() -> None:
    cluster = Cluster(29)
    cluster.apply([FeatureLevelRecord(SHARE, 1)])
    wanted = levels_of(25, present=cluster.state.features.finalized())
    plans, records = plan_levels(cluster.state, wanted, kraft_version=1, voters=(), settings=cluster.settings)

    assert {METADATA_VERSION: 25, GROUP: 1, SHARE: 0, "transaction.version": 2} == {
        each.feature: each.wanted for each in plans
    }
    assert 4 == len(records)


@pytest.mark.parametrize("share", [1, 2])
def test_an_upgrade_to_a_release_lowers_nothing_that_was_raised_by_itself(tmp_path: Path, share: int) -> None:
    """As `kafka-features.sh upgrade --release-version`, which asks for no level 0; share.version is 0 with 4.1."""
    cluster = Cluster(25)
    cluster.apply([FeatureLevelRecord(SHARE, share)])
    document = planned(cluster, tmp_path, "--release", "4.1")

    assert {METADATA_VERSION, GROUP, ELR, "transaction.version"} == {each["feature"] for each in document["features"]}
    assert f"share.version stays at {share}: an upgrade lowers no feature" in document["notes"]
    cluster.write(updating(cluster, document))
    assert (27, share) == tuple(map(cluster.state.features.level, (METADATA_VERSION, SHARE)))


def test_of_a_source_without_the_quorum_kraft_version_is_refused_and_the_rest_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An observer's state is one: it has no voters, of which one that never registered stands against a level."""
    found = Offline(path="observer:1", state=Cluster(25).state, has_quorum=False)
    with pytest.raises(
        Misused, match=r"kraft\.version=1: an observer tells neither the voters nor kraft.version; ask a"
    ):
        plan(found, features=["kraft.version=1", f"{GROUP}=1"], release=None, output="text")

    assert plan(found, features=[f"{GROUP}=1"], release=None, output="text")
    printed = capsys.readouterr().out
    assert "note: an observer tells neither the voters nor kraft.version: controllers that never reg" in printed
    assert "kraft.version 0" not in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--feature", "no.such=1"], "'no.such=1': known are eligible.leader.replicas.version, group.version"),
        (["--feature", f"{GROUP}=x"], "NAME=LEVEL, a level is a number from 0 to 32767"),
        (["--feature", f"{GROUP}=32768"], "NAME=LEVEL, a level is a number from 0 to 32767"),
        (["--release", "2.8"], "'2.8' is no metadata.version: known are 3.3-IV3 to 4.4-IV2"),
        (["--release", "4.4", "--feature", f"{GROUP}=1"], "--feature and --release: give one of them"),
    ],
)
def test_what_is_no_level_is_refused(options: Sequence[object], words: str) -> None:
    ran = run("features", "plan", "--offline", FIXTURES / "combined-static/node-1", *options)

    assert (2, "", True) == (ran.code, ran.out, words in ran.err), ran


def test_of_a_kafkas_log_as_text() -> None:
    ran = run("features", "plan", "--offline", FIXTURES / "three-dynamic/controller-3")

    assert (1, "") == (ran.code, ran.err)
    assert "  metadata.version 30 (4.3-IV0) → 33 (4.4-IV2): blocked by 5\n    broker 4 supports 7 to 30\n" in ran.out
    one = run("features", "plan", "--offline", FIXTURES / "combined-static/node-1", "--feature", f"{GROUP}=0")
    assert (0, "") == (one.code, one.err)
    assert '{"name": "group.version", "featureLevel": 0}' in one.out
