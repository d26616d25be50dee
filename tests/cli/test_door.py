"""The command as people run it: help at once, one line for an error, one document for a program, an exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.directories import CLUSTER_ID, KAFKA_NODES, run, run_apart

NODE = KAFKA_NODES[0]
MODULES_MAX = 30
"""Of the package: its command imports 20 for help, and some hundreds for what it does."""


@pytest.mark.parametrize(
    "given", [["--help"], ["topics", "create", "--help"], ["users", "set", "--help"]], ids=" ".join
)
def test_help_loads_nothing_that_only_a_command_needs(given: list[str]) -> None:
    """What makes `--help` answer at once: neither rich nor the schema is imported for it, and few modules at all."""
    late = (
        "rich",
        "google.protobuf",
        "grpc",
        "sqlalchemy",
        "sqlite3",
        "yaml",
        "pyarrow",
        "quorate.wire",
        "quorate.metadata",
        "quorate.records",
    )
    program = (
        f"import sys; from quorate.cli import main; main({given!r});"
        f"print([name for name in {late} if name in sys.modules]);"
        "print(sum(name.startswith('quorate.') for name in sys.modules))"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    *told, loaded, count = ran.stdout.splitlines()
    assert told[0].startswith("Usage: quorate")
    assert "[]" == loaded
    assert int(count) < MODULES_MAX


@pytest.mark.parametrize("noun", ["storage", "log", "image"])
def test_every_noun_has_help(noun: str) -> None:
    ran = run(noun, "--help")

    assert 0 == ran.code
    assert "Usage: quorate" in ran.out


@pytest.mark.parametrize("given", [[], ["log"]], ids=["nothing", "a noun"])
def test_without_a_verb_it_shows_the_help_in_its_lines_and_ends_with_2(given: list[str]) -> None:
    ran = run(*given)

    assert (2, "") == (ran.code, ran.out)
    assert ran.err.startswith("Usage: quorate")
    assert len(ran.err.splitlines()) > 5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("quorate topics ", {"list", "create", "delete"}),
        ("quorate features up", {"upgrade"}),
        ("quorate topics create --dry", {"--dry-run"}),
        ("quorate topics --output y", {"yaml"}),
    ],
)
def test_a_shell_completes_verbs_options_and_values(words: str, expected: set[str]) -> None:
    """Also of a noun whose verb may be left out."""
    asked = {"_QUORATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ran = subprocess.run(
        [sys.executable, "-c", "from quorate.cli import main; main()"],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        check=False,
    )

    assert expected <= set(ran.stdout.split()), ran


def test_its_version_names_the_levels_that_it_knows() -> None:
    ran = run("--version")

    assert 0 == ran.code
    assert re.match(r"quorate \d+\.\d+\.\d+\nmetadata.version  7 to 33 \(3.3-IV3 to 4.4-IV2\)\n", ran.out)
    assert "share.version                     0 to 2\n" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["storage", "format"], "Missing option '--config' / '-c'"),
        (["storage", "format", "--nonsense"], "No such option"),
        (["log", "dump"], "give a file or directory or --bootstrap-controller, one of them"),
        (
            ["image", "show", "--offline", "x", "--bootstrap-controller", "h:1"],
            "give --offline or --observer or --bootstrap-controller",
        ),
        (
            ["image", "show", "--offline", "x", "--command-config", "y"],
            "--command-config is for --bootstrap-controller",
        ),
        (["image", "show", "--bootstrap-controller", "h"], "--bootstrap-controller: 'h' is not HOST:PORT"),
        (["log", "dump", "x.log", "--from", "-1"], "--from '-1': an offset is a number from 0 on"),
        (["log", "dump", "x.log", "--to", "1_0"], "--to '1_0': an offset is a number from 0 on"),
        (["image", "show", "--offline", "x", "--as-of", "soon"], "--as-of 'soon': an offset is a number from 0 on"),
        (["image", "show", "--offline", "x", "--as-of", "2026-13-01"], "a time is like 2026-11-27T03:00:00Z"),
        (["sql", "SELECT 1", "--offline", "x", "--as-of", "1969-12-31"], "--as-of '1969-12-31': an offset is a number"),
        (["image", "show", "--offline", "x", "--as-of", "9999-12-31T23:59-23:00"], "a time is like 2026-11-27T03"),
        (["log", "dump", "x.log", "--from", "5", "--to", "2"], "--from 5 --to 2: nothing lies between"),
        (["log", "dump", "x.log", "--to", "0"], "--from 0 --to 0: nothing lies between"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_a_command_line_that_cannot_be_meant_ends_with_2(arguments: list[str], words: str) -> None:
    ran = run(*arguments, "--json")

    assert (2, 1) == (ran.code, len(ran.err.splitlines()))
    assert words in ran.err
    assert (2, True) == (ran.document["error"]["exitCode"], words in ran.document["error"]["message"])


def test_the_whole_way_of_a_new_directory(tmp_path: Path) -> None:
    """Format, look, check: each as a process of its own."""
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlisteners=CONTROLLER://localhost:9093\nmetadata.log.dir={tmp_path / 'data'}\n")
    cluster_id = run_apart("storage", "random-uuid").out.strip()

    formatted = run_apart("storage", "format", "-c", config, "-t", cluster_id, "--standalone", "--json")
    info = run_apart("storage", "info", "-c", config, "--json")
    verified = run_apart("log", "verify", tmp_path / "data", "--cluster-id", cluster_id, "--json")
    dumped = run_apart("log", "dump", tmp_path / "data", "--json")
    shown = run_apart("image", "show", "--offline", tmp_path / "data", "--json")

    assert [(0, "")] * 5 == [(ran.code, ran.err) for ran in (formatted, info, verified, dumped, shown)]
    assert (
        cluster_id == formatted.document["directories"][0]["clusterId"] == info.document["directories"][0]["clusterId"]
    )
    assert verified.document["sound"]
    names = {each["payload"]["data"]["name"] for each in dumped.documents if "payload" in each}
    assert "metadata.version" in names
    assert formatted.document["voters"][0]["directoryId"] == shown.document["voters"][0]["directoryId"]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """`| head -1`: no traceback."""
    command = [sys.executable, "-m", "quorate.cli", "log", "dump", "--explain", str(NODE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("Explaining")
        process.stdout.close()
        told = process.stderr.read()

    assert "" == told


def test_an_error_is_a_document_too(tmp_path: Path) -> None:
    ran = run_apart("storage", "format", "-c", tmp_path / "nowhere", "-t", CLUSTER_ID, "--json")

    assert 1 == ran.code
    assert {"error": {"message": f"{tmp_path}/nowhere: No such file or directory", "exitCode": 1}} == json.loads(
        ran.out
    )
    assert f"quorate: {tmp_path}/nowhere: No such file or directory\n" == ran.err
