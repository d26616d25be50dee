"""A controller's file: what Kafka's names in it come to, and that none of them is taken and not heeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.controller.periodic import CHORES
from quorate.runtime.access.entry_guard import authorizer_of
from quorate.runtime.settings.config import ConfigError, load
from services.controller.config import ControllerConfig
from services.controller.settings import NAMES, intervals_of, settings_of, static_configs

NEEDED = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "quorum.endpoint": "127.0.0.1:1",
    "placer.endpoints": "127.0.0.1:2",
    "metadata.log.dir": "log",
}


def written(tmp_path: Path, **given: str) -> tuple[ControllerConfig, dict[str, str]]:
    """A file with what is needed and what is given; `_` stands for a dot. And the broker configs in it."""
    file = tmp_path / "controller.properties"
    lines = NEEDED | {name.replace("_", "."): value for name, value in given.items()}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    argv = ["--config", str(file)]
    return load(ControllerConfig, argv, {}, others=NAMES), static_configs(argv, {})


def test_what_is_not_said_is_as_in_kafka(tmp_path: Path) -> None:
    config, static = written(tmp_path)
    settings = settings_of(config, static)

    assert (1, 1, True, 2_000) == (
        settings.num_partitions,
        settings.default_replication_factor,
        settings.delete_topic_enable,
        settings.partitions_per_page,
    )
    assert {chore.setting: chore.interval_ms for chore in CHORES if chore.setting} == intervals_of(config)
    assert authorizer_of(config) is None


def test_what_is_said_is_heeded(tmp_path: Path) -> None:
    config, static = written(
        tmp_path,
        num_partitions="6",
        default_replication_factor="3",
        delete_topic_enable="false",
        max_request_partition_size_limit="10",
        delegation_token_max_lifetime_ms="7",
        delegation_token_expiry_time_ms="5",
        min_insync_replicas="2",
    )
    settings = settings_of(config, static)

    assert (6, 3, False, 10) == (
        settings.num_partitions,
        settings.default_replication_factor,
        settings.delete_topic_enable,
        settings.partitions_per_page,
    )
    assert (7, 5) == (settings.delegation_tokens.max_lifetime_ms, settings.delegation_tokens.expiry_time_ms)
    assert "2" == settings.static_configs["min.insync.replicas"]


CHORE, PREFERRED = "unclean.leader.election.interval.ms", "leader.imbalance.check.interval.seconds"


@pytest.mark.parametrize(
    ("given", "setting", "interval_ms"),
    [
        ({"metadata_max_idle_interval_ms": "0"}, "metadata.max.idle.interval.ms", 0),
        ({"unclean_leader_election_interval_ms": "1000"}, CHORE, 1_000),
        ({"leader_imbalance_check_interval_seconds": "7"}, PREFERRED, 7_000),
        ({"auto_leader_rebalance_enable": "false"}, PREFERRED, 0),
        (
            {"auto_leader_rebalance_enable": "false", "leader_imbalance_check_interval_seconds": "7"},
            PREFERRED,
            0,
        ),
        ({"delegation_token_expiry_check_interval_ms": "9"}, "delegation.token.expiry.check.interval.ms", 9),
    ],
)
def test_chores_are_done_as_often_as_is_said(
    given: dict[str, str], setting: str, interval_ms: int, tmp_path: Path
) -> None:
    config, _ = written(tmp_path, **given)

    assert interval_ms == intervals_of(config)[setting]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delete_topic_enable", "no"),
        ("auto_leader_rebalance_enable", "1"),
        ("leader_imbalance_check_interval_seconds", "0"),
        ("unclean_leader_election_interval_ms", "0"),
        ("max_request_partition_size_limit", "0"),
    ],
)
def test_what_kafka_would_not_read_is_refused(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=name.replace("_", r"\.")):
        written(tmp_path, **{name: value})


def test_super_users_are_the_authorizers(tmp_path: Path) -> None:
    config, _ = written(
        tmp_path,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
        allow_everyone_if_no_acl_found="true",
    )
    authorizer = authorizer_of(config)

    assert authorizer is not None
    assert (frozenset({"User:admin"}), True) == (
        authorizer.super_users,
        authorizer.allow_everyone_if_no_acl_found,
    )
