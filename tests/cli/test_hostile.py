"""What a stranger gives the command: it ends, in one line that names what is wrong, and never in a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.records import ConfigRecord, UserScramCredentialRecord
from tests.cli.directories import CLUSTER_ID, END_OFFSET, LOG_NAME, a_history, batch, run, write_log

BIG = "9" * 5000
NOISE = bytes(range(256)) * 8


def config(tmp_path: Path, **changes: str) -> Path:
    values = {
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:19193",
        "metadata.log.dir": str(tmp_path / "data"),
    }
    values |= {key.replace("_", "."): value for key, value in changes.items()}
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


Case = tuple[Callable[[Path], list[object]], int, str]
HOSTILE: dict[str, Case] = {
    "as-of of 5000 digits": (
        lambda tmp: ["image", "show", "--offline", tmp, "--as-of", BIG],
        2,
        "an offset is a number",
    ),
    "from of 5000 digits": (lambda tmp: ["log", "dump", tmp, "--from", BIG], 2, "an offset is a number"),
    "feature of 5000 digits": (
        lambda tmp: ["storage", "format", "-c", config(tmp), "-t", CLUSTER_ID, "-f", f"group.version={BIG}"],
        2,
        "it is NAME=LEVEL",
    ),
    "node id of 5000 digits": (lambda tmp: ["storage", "info", "-c", config(tmp, node_id=BIG)], 1, "node.id is"),
    "port of 5000 digits": (
        lambda tmp: [
            *("storage", "format", "-t", CLUSTER_ID, "-s", "-c"),
            config(tmp, controller_quorum_voters="", listeners=f"CONTROLLER://host:{BIG}"),
        ],
        1,
        "port 1 to 65535",
    ),
    "log named by 4000 digits of other alphabets": (
        lambda tmp: ["log", "dump", file(tmp / ("\u0662" * 60 + ".log"), b"")],
        0,
        "",
    ),
    "NUL in an argument": (lambda _: ["log", "dump", "a\0b"], 2, "has a NUL in it"),
    "NUL in a configured path": (
        lambda tmp: ["storage", "info", "-c", config(tmp, metadata_log_dir="/a\\u0000b")],
        1,
        "has no NUL",
    ),
    "FIFO to dump": (lambda tmp: ["log", "dump", fifo(tmp / LOG_NAME)], 1, "neither a file nor a directory"),
    "FIFO to verify": (lambda tmp: ["log", "verify", fifo(tmp / LOG_NAME)], 1, "neither a file nor a directory"),
    "FIFO to show": (
        lambda tmp: ["image", "show", "--offline", fifo(tmp / LOG_NAME)],
        1,
        "neither a file nor a directory",
    ),
    "FIFO as configuration": (lambda tmp: ["storage", "info", "-c", fifo(tmp / "fifo")], 1, "is no file"),
    "directory as configuration": (lambda tmp: ["storage", "info", "-c", tmp], 1, "is no file"),
    "noise as configuration": (
        lambda tmp: ["storage", "info", "-c", file(tmp / "x", NOISE)],
        1,
        "is not a properties file",
    ),
    "noise as a log to show": (
        lambda tmp: ["image", "show", "--offline", file(tmp / LOG_NAME, NOISE)],
        1,
        "there is not one whole batch in it",
    ),
    "noise as a checkpoint": (
        lambda tmp: ["image", "show", "--offline", file(tmp / "bootstrap.checkpoint", NOISE)],
        1,
        "bootstrap.checkpoint",
    ),
    "noise as a log to verify": (lambda tmp: ["log", "verify", file(tmp / LOG_NAME, NOISE)], 1, "is not sound"),
    "noise as a log to dump": (lambda tmp: ["log", "dump", file(tmp / LOG_NAME, NOISE)], 1, "at byte 0"),
    "nothing there": (lambda tmp: ["log", "dump", tmp / "no"], 1, "No such file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_ends_in_one_line(tmp_path: Path, name: str) -> None:
    arguments, code, words = HOSTILE[name]

    ran = run(*arguments(tmp_path))

    assert code == ran.code, ran.err
    assert words in ran.err
    assert len(ran.err) < 2_000
    assert "Traceback" not in ran.err + ran.out


def test_a_file_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    """ESC in meta.properties, and C1's CSI in a record; each is an escape in the output, which stays the same JSON."""
    name = ConfigRecord(2, "foo.bar", "retention.ms", "a\x9b2Jb\x7fc")
    partition = write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (name, 0))])
    properties = tmp_path / "meta.properties"
    properties.write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\x1b[2J\n")
    commands: list[list[object]] = [["log", "dump", partition / LOG_NAME], ["log", "dump", properties]]
    commands += [["log", "verify", tmp_path], ["log", "verify", tmp_path, "--cluster-id", "another"]]

    said = [run(*command) for command in commands]

    for ran in said:
        lines = (ran.out + ran.err).splitlines()
        assert [] == [line for line in lines if not line.isprintable()]
    assert '"value":"a\\u009b2Jb\\u007fc"' in said[0].out
    assert said[1].out.endswith(f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\\u001b[2J\n")
    assert f"cluster {CLUSTER_ID}\\u001b[2J, node 1" in said[2].out
    assert f"cluster.id is {CLUSTER_ID}\\u001b[2J" in said[3].err


def test_secrets_are_dumped_only_when_asked_for(tmp_path: Path) -> None:
    user = UserScramCredentialRecord("alice", 1, b"salty-salt", b"stored-key", b"server-key", 4096)
    secret = ConfigRecord(4, "2", "listener.name.x.ssl.keystore.password", "hunter2")
    path = write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (user, 0), (secret, 0))]) / LOG_NAME
    words = ("hunter2", "c2FsdHktc2FsdA==", "c3RvcmVkLWtleQ==", "c2VydmVyLWtleQ==")

    for options in ([], ["--json"]):
        hidden, shown = run("log", "dump", path, *options), run("log", "dump", path, "--show-secrets", *options)

        assert (0, 0) == (hidden.code, shown.code)
        assert [] == [word for word in words if word in hidden.out]
        assert "(redacted)" in hidden.out
        assert list(words) == [word for word in words if word in shown.out]


def test_the_pipelines_help_needs_no_spark(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError('there is no Spark here')\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "quorate.cli", "pipeline", "--help"]

    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, env=environ)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert re.search("ingest.*silver.*gold", ran.stdout, re.DOTALL)
