"""Users that a JVM's checkpoint lacks are named by `image show` and `log verify`, and come back without it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from quorate.storage.names import LOG, segment_file
from tests.cli.directories import run
from tests.cli.lossy import CHECKPOINTS, LOST, NODE, checkpoint, lossy

NOTE = f"the checkpoint lacks SCRAM credentials that the log before it has: {LOST}"


def shown(directory: Path, *arguments: str) -> Any:
    ran = run("image", "show", "--offline", directory, "--json", *arguments)

    assert 0 == ran.code, ran.err
    return ran.document


def test_kafkas_own_admin_client_does_not_see_them_either() -> None:
    before, after = json.loads((NODE.parent / "described.json").read_text())

    assert ["grace", "mallory"] == [each["user"] for each in before["scram"]]
    assert ["grace"] == [each["user"] for each in after["scram"]]


@pytest.mark.parametrize("log_from", [0, 23])
@pytest.mark.parametrize(("as_of", "notes"), [("42", []), ("43", [NOTE]), ("50", [NOTE]), ("66", [NOTE])])
def test_image_show_names_them_where_the_log_before_the_checkpoint_is_there(
    tmp_path: Path, log_from: int, as_of: str, notes: list[str]
) -> None:
    lossy(tmp_path / "node", log_from=log_from)

    found = shown(tmp_path / "node", "--as-of", as_of)

    assert notes == found["notes"]
    of_256 = set(found["scram"].get("SCRAM-SHA-256", ()))
    assert (set() if notes else {"alice", "bob"}) == of_256


def test_nothing_is_said_where_the_log_does_not_tell(tmp_path: Path) -> None:
    lossy(tmp_path / "node", log_from=43)

    assert [] == shown(tmp_path / "node")["notes"]


def test_damage_before_the_checkpoint_leaves_it_unknown_and_the_state_is_shown(tmp_path: Path) -> None:
    partition = lossy(tmp_path / "node", log_from=23)
    data = next(NODE.rglob(f"{0:020d}.log")).read_bytes()
    before = bytearray(data[: len(data) - segment_file(partition, 23, LOG).stat().st_size])
    before[-5] ^= 1
    segment_file(partition, 0, LOG).write_bytes(before)

    assert [] == shown(tmp_path / "node")["notes"]


def test_log_verify_names_them_and_no_secret(tmp_path: Path) -> None:
    lossy(tmp_path / "node")
    dump = next(NODE.rglob(f"{0:020d}.log.dump.txt")).read_text()
    secrets = set(re.findall(r'"(?:salt|storedKey|serverKey)":"([^"]+)"', dump))

    ran = run("log", "verify", tmp_path / "node")

    assert secrets
    assert f"what the checkpoint at offset 43 says, which lacks the SCRAM credentials of {LOST}\n" in ran.out
    assert [] == [each for each in secrets if each in ran.out + ran.err]


def test_without_those_checkpoints_the_log_brings_them_back(tmp_path: Path) -> None:
    """What the README says can be done while the log is there."""
    partition = lossy(tmp_path / "node")
    for offset in CHECKPOINTS[1:]:
        checkpoint(partition, offset).unlink()

    found = shown(tmp_path / "node")

    assert {"alice", "bob"} == set(found["scram"]["SCRAM-SHA-256"])
    assert [] == found["notes"]
    assert 0 == run("log", "verify", tmp_path / "node").code
