"""The directories of a broker whose volumes come by themselves are formatted once, and are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import Corrupt
from quorate.runtime.settings.config import load
from quorate.storage.meta_properties import read_meta_properties
from services.broker.config import FOR_FORMAT
from services.broker.directories import LogDirectories
from services.broker.first_start import BrokerFirstStartConfig, format_new

CLUSTER_ID = "hJvfCk0kQ3KiQ6rECn5K3g"


def config(disks: list[Path], *, node_id: int = 101, cluster_id: str = CLUSTER_ID) -> BrokerFirstStartConfig:
    settings = {
        "process.roles": "broker",
        "node.id": node_id,
        "log.dirs": ",".join(map(str, disks)),
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "health.listeners": "HEALTH://127.0.0.1:9198",
        "controller.quorum.bootstrap.servers": "quorum-1:9093",
        "controller.endpoints": "controller-1:9094",
        "heartbeat.endpoint": "heartbeat:9095",
        "grpc.security.protocol": "PLAINTEXT",
        "cluster.id": cluster_id,
    }
    arguments = [f"--set={key}={value}" for key, value in settings.items()]
    return load(BrokerFirstStartConfig, arguments, {}, others=FOR_FORMAT)


def test_what_is_empty_is_formatted_and_what_is_formatted_stays(tmp_path: Path) -> None:
    disks = [tmp_path / "a", tmp_path / "b"]
    counts = [format_new(config(disks[:1])), format_new(config(disks)), format_new(config(disks))]
    ids = {read_meta_properties(disk).directory_id for disk in disks if read_meta_properties(disk) is not None}
    opened = LogDirectories(disks, 101)

    assert [1, 1, 0] == counts
    assert 2 == len(ids)
    assert CLUSTER_ID == opened.cluster_id
    opened.release()


@pytest.mark.parametrize(
    ("other", "named"),
    [({"cluster_id": "AAAAAAAAAAAAAAAAAAAABA"}, "AAAAAAAAAAAAAAAAAAAABA"), ({"node_id": 102}, "102")],
    ids=["cluster", "broker"],
)
def test_a_volume_of_another_cluster_or_broker_is_refused_and_left_as_it_is(
    tmp_path: Path, other: dict[str, object], named: str
) -> None:
    format_new(config([tmp_path / "a"]))
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    with pytest.raises(Corrupt, match=named):
        format_new(config([tmp_path / "a"], **other))  # type: ignore[arg-type]

    assert before == (tmp_path / "a" / "meta.properties").read_bytes()
