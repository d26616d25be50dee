"""A quorum node names the users that the checkpoint it goes on from lacks, and its log has. Real processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.ports import free_ports
from tests.cli.lossy import CHECKPOINTS, LOST, checkpoint, lossy

LISTENING = "listening"


def warnings_of(directory: Path) -> list[dict[str, str]]:
    """What a node on this directory warns of until it listens, but for its clear text."""
    (port,) = free_ports(1)
    settings = {
        "node.id": "1",
        "metadata.log.dir": str(directory),
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "services.quorum", *sets]
    lines: list[dict[str, str]] = []
    environ = {**os.environ, "QUORATE_LOG_FORMAT": "logfmt", "QUORATE_LOG_LEVEL": "info"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ) as node:
        assert node.stdout is not None
        try:
            for line in node.stdout:
                lines.append(dict(part.split("=", 1) for part in shlex.split(line)))
                if lines[-1]["event"] == LISTENING:
                    break
        finally:
            node.kill()
    assert LISTENING in [line["event"] for line in lines], lines
    return [line for line in lines if line["level"] == "warning" and "in the clear" not in line["event"]]


@pytest.mark.parametrize("log_from", [0, 23])
def test_it_warns_with_users_and_mechanisms(tmp_path: Path, log_from: int) -> None:
    lossy(tmp_path / "node", log_from=log_from)

    (warning,) = warnings_of(tmp_path / "node")

    assert "the latest checkpoint lacks SCRAM credentials that the log has" in warning["event"]
    assert ("65", LOST) == (warning["checkpoint"], warning["users"])


def test_it_says_nothing_without_those_checkpoints_or_without_the_log_before_them(tmp_path: Path) -> None:
    partition = lossy(tmp_path / "without")
    for offset in CHECKPOINTS[1:]:
        checkpoint(partition, offset).unlink()
    lossy(tmp_path / "unknown", log_from=65)

    assert [] == [*warnings_of(tmp_path / "without"), *warnings_of(tmp_path / "unknown")]
