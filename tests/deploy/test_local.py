"""What `make run` stands on: everything compiled beforehand, and a launcher that says who did not start, and why."""

from __future__ import annotations

import socket
import subprocess
from importlib.metadata import files
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from deploy.local.plan import make_plan
from deploy.local.ports import HOST
from deploy.local.processes import ROOT, NotReady, Running
from deploy.local.show import lines_to_paste

PLAIN_PROCESSES = True
OURS = ("deploy", "libs", "services")
THEIRS = ("grpcio", "opentelemetry-sdk", "protobuf", "sqlalchemy")


def test_setup_compiles_what_a_service_imports() -> None:
    subprocess.run(("make", "--silent", "setup"), cwd=ROOT, check=True)
    ours = [path for folder in OURS for path in (ROOT / folder).rglob("*.py")]
    theirs = [Path(str(each.locate())) for name in THEIRS for each in files(name) or () if each.suffix == ".py"]

    assert [] == [path for path in (*ours, *theirs) if not Path(cache_from_source(str(path))).exists()]


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["observer-201", "quorum-1"], ids=["the first", "one of many"])
async def test_who_ends_instead_of_listening_is_named(name: str, tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    running = Running(plan)
    with socket.socket() as other:
        other.bind((HOST, next(each.port for each in plan.processes if each.name == name)))
        other.listen(1)
        try:
            with pytest.raises(NotReady, match=rf"^{name} ended with exit code 3:(\n.*)*cannot listen on 127.0.0.1:"):
                await running.start()
        finally:
            await running.stop()


async def test_a_directory_of_another_node_is_not_formatted(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    running = Running(plan)
    one, two, _ = plan.quorum
    await running.format(one)
    (tmp_path / "node-2").symlink_to(tmp_path / "node-1")

    with pytest.raises(NotReady, match=r"node-2 could not be formatted: .* belongs to node 1, and node 2 is asked for"):
        await running.format(two)


def test_a_gateway_is_listed_with_the_address_for_kafkas_tools_before_that_of_its_health(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, with_gateways=True)

    rows = [line.split() for line in lines_to_paste(plan)]
    listed = [row[1] for row in rows if row and row[0].startswith("gateway-")]

    assert listed == plan.bootstrap_controllers.split(",")
    assert not set(listed) & {each.address for each in plan.processes}
