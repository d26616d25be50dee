"""`make run KAFKA=1` where something is missing: it says what, and how to get it, before it starts anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.kafka.release import POM, NotFetched, jars, missing, version
from deploy.local.processes import ROOT


def program(directory: Path, name: str, script: str) -> None:
    """Makes an executable of this name, for a PATH with this directory."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def unknown_release(tmp_path: Path) -> Path:
    """A POM of a release that nobody has fetched."""
    pom = tmp_path / "pom.xml"
    pom.write_text(POM.read_text().replace(version(), "0.0.0-none"))
    return pom


def test_without_java_it_says_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.local", "--kafka", "--once", "--directory", str(tmp_path / "run")]
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": str(tmp_path)}, check=False, capture_output=True, text=True
    )

    assert (1, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.startswith("not ready: not on PATH: java")
    assert "a JDK 17 and Maven 3.8 (Debian, Ubuntu: `apt-get install openjdk-17-jdk-headless maven`" in ran.stdout
    assert not (tmp_path / "run").exists()


def test_maven_is_needed_until_the_jars_are_there(
    unknown_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "java", "exit 0")
    without = missing(unknown_release)
    program(tmp_path, "mvn", "exit 0")

    assert without is not None
    assert without.startswith("not on PATH: mvn; ")
    assert missing(unknown_release) is None


def test_what_maven_says_when_it_does_not_fetch_them_is_told(
    unknown_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "mvn", "echo 'Could not transfer artifact'; exit 1")

    with pytest.raises(NotFetched, match=r"^Maven does not fetch Kafka 0\.0\.0-none:\nCould not transfer artifact\n$"):
        jars(unknown_release)
    assert missing(unknown_release) is not None
