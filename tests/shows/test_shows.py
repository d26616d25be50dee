"""The command of the shows: a show in small, and what it makes of one that cannot go on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from deploy.local.processes import ROOT
from tests.e2e.calls import WITHIN_S

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]


async def run(*words: str) -> tuple[int | None, list[str]]:
    """The exit code of the command, and its lines."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.shows", *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        out, _ = await asyncio.wait_for(child.communicate(), WITHIN_S)
    finally:
        if child.returncode is None:
            child.terminate()  # it ends its own children
            await child.wait()
    return child.returncode, out.decode().splitlines()


async def test_a_frozen_leader_in_small(tmp_path: Path) -> None:
    code, lines = await run("--only", "frozen-leader", "--short", "--seed", "1", "--directory", str(tmp_path))
    show, times, acknowledged, lost, fenced, _, wrong = [cell.strip() for cell in lines[-1].split("|")[1:-1]]

    assert "seed 1" == lines[0]
    assert ("frozen-leader", "1", "0", "0", "nothing") == (show, times, lost, fenced, wrong), lines
    assert int(acknowledged) > 0
    assert 0 == code, lines


async def test_a_plane_that_does_not_start_is_told_of(tmp_path: Path) -> None:
    """A file is where the directory of the show should be."""
    (tmp_path / "frozen-leader").touch()
    code, lines = await run("--only", "frozen-leader", "--short", "--directory", str(tmp_path))

    assert 1 == code
    assert lines[-1].startswith("| frozen-leader | 0 | 0 | 0 | 0 | 0.0 s | stopped: "), lines
