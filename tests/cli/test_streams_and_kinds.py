"""What stands where a file of a log should be, and where the output goes: the command ends, in one line or none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import NoOpRecord
from quorate.storage.names import LOCK, PARTITION_DIRECTORY
from tests.cli.directories import (
    CLUSTER_ID,
    END_OFFSET,
    LOG_NAME,
    Ran,
    a_history,
    batch,
    contents,
    run,
    run_apart,
    write_checkpoint,
    write_log,
)

QUORATE: Final = (sys.executable, "-m", "quorate.cli")
UNPRIVILEGED: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
"""Before a command of root's: it may then read only what modes of files allow, as everybody else."""
CHECKPOINT = "00000000000000000007-0000000001.checkpoint"
FILES: Final = (
    f"{PARTITION_DIRECTORY}/{LOG_NAME}",
    f"{PARTITION_DIRECTORY}/{LOG_NAME.replace('.log', '.index')}",
    f"{PARTITION_DIRECTORY}/{LOG_NAME.replace('.log', '.timeindex')}",
    f"{PARTITION_DIRECTORY}/{CHECKPOINT}",
    f"{PARTITION_DIRECTORY}/quorum-state",
    f"{PARTITION_DIRECTORY}/leader-epoch-checkpoint",
    f"{PARTITION_DIRECTORY}/partition.metadata",
    f"{PARTITION_DIRECTORY}/quorate-durable-end",
    f"{PARTITION_DIRECTORY}/quorate-promised-end",
    f"{PARTITION_DIRECTORY}/quorate-election-written",
    "meta.properties",
    "bootstrap.checkpoint",
)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path))


KINDS: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "FIFO": (os.mkfifo, "is a FIFO"),
    "directory": (Path.mkdir, "is a directory"),
    "socket": (bind, "is a socket"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    "loop": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with a checkpoint in it, and a bootstrap checkpoint."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "data"
    partition = write_log(directory, a_history())
    write_checkpoint(partition, ClusterState(), OffsetAndEpoch(offset=7, epoch=1))
    (directory / "bootstrap.checkpoint").write_bytes((partition / CHECKPOINT).read_bytes())
    return directory


def readers(directory: Path, file: Path) -> dict[str, tuple[object, ...]]:
    """The commands that would open `file`."""
    config = directory.parent / "server.properties"
    config.write_text(f"node.id=1\ncontroller.quorum.voters=1@127.0.0.1:19193\nmetadata.log.dir={directory}\n")
    found: dict[str, tuple[object, ...]] = {
        "verify": ("log", "verify", directory),
        "show": ("image", "show", "--offline", directory),
        "dump": ("log", "dump", directory),
        "reset": ("storage", "reset-epoch", "-c", config, "--epoch", "1"),
    }
    if file.parent == directory:
        found["info"] = ("storage", "info", "-c", config)
        found["format"] = ("storage", "format", "-c", config, "-t", CLUSTER_ID, "--ignore-formatted")
    return found


@pytest.mark.parametrize(
    ("name", "kind"), [(name, "FIFO") for name in FILES] + [(FILES[at], kind) for at in (0, 3, 10) for kind in KINDS]
)
def test_what_is_no_regular_file_is_named_and_not_opened(directory: Path, name: str, kind: str) -> None:
    file = directory / name
    file.unlink(missing_ok=True)
    make, words = KINDS[kind]
    make(file)
    before = contents(directory) if kind != "device" else {}
    for command in readers(directory, file).values():
        ran = refused(*command)

        assert words in ran.err
        assert str(file) in ran.err
    assert kind == "device" or before == contents(directory)


def refused(*arguments: object) -> Ran:
    """How the command ended: in one line."""
    ran = run(*arguments)

    assert 1 == ran.code, (arguments, ran)
    assert 1 == ran.err.count("\n"), ran.err
    return ran


def test_a_fifo_does_not_hang_the_command_itself(directory: Path) -> None:
    """Once as people run it, in a process of its own that is ended if it waits."""
    file = directory / FILES[0]
    file.unlink()
    os.mkfifo(file)
    for command in readers(directory, file).values():
        ran = run_apart(*command)

        assert (1, True) == (ran.code, f"{file} is a FIFO" in ran.err), ran


def times(directory: Path) -> dict[str, int]:
    """When each file was changed last, but for the lock, which its next owner makes anew."""
    return {path.name: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file() and path.name != LOCK}


@pytest.mark.parametrize("name", [FILES[0], FILES[3], FILES[10]])
def test_what_may_not_be_read_is_named(directory: Path, name: str) -> None:
    file = directory / name
    file.chmod(0)
    before = times(directory)
    told = []
    for command in readers(directory, file).values():
        prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
        ran = subprocess.run(
            [*prefix, *QUORATE, *map(str, command)], check=False, capture_output=True, text=True, timeout=60
        )
        told.append(ran.stderr)

        assert ran.returncode in (0, 1), ran
        assert "Traceback" not in ran.stderr
        assert len(ran.stderr) < 1_000

    assert any("Permission denied" in each and str(file) in each for each in told), told
    assert before == times(directory)


def test_a_configuration_of_a_client_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "client.properties")
    ran = run_apart(
        *("log", "dump", "--bootstrap-controller", "127.0.0.1:1", "--command-config", tmp_path / "client.properties")
    )

    assert (2, True) == (ran.code, "it is no file" in ran.err), ran


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """More output than fits into a pipe."""
    many = [batch(2, END_OFFSET + number, (NoOpRecord(), 0)) for number in range(3_000)]
    write_log(tmp_path / "data", [*a_history(), *many])
    return tmp_path / "data"


def commands(path: Path) -> Sequence[tuple[object, ...]]:
    """Text and JSON, long and short, done and failed."""
    return (
        ("log", "dump", path),
        ("image", "show", "--offline", path, "--json"),
        ("storage", "random-uuid"),
        ("log", "dump", path / "nowhere", "--json"),
    )


def in_shell(words: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """`"$@"` in `words` is the command."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words}", "bash", *QUORATE, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_reader_that_has_read_enough_ends_it_without_a_word(long_log: Path) -> None:
    for command in commands(long_log)[:1]:
        ran = in_shell('"$@" | head -n 1', *command)

        assert (128 + signal.SIGPIPE, "") == (ran.returncode, ran.stderr), command
        assert ran.stdout


def test_a_reader_that_reads_nothing_ends_it_without_a_word(long_log: Path) -> None:
    for command in commands(long_log):
        ran = in_shell('{ sleep 0.3; "$@"; } | exec 0<&-', *command)

        assert (128 + signal.SIGPIPE, "") == (ran.returncode, ran.stderr), command


@pytest.mark.parametrize(
    ("words", "reason"),
    [('"$@" >&-', "standard output is closed"), ('"$@" > /dev/full', "standard output: No space left on device")],
)
def test_an_output_that_takes_nothing_is_named(long_log: Path, words: str, reason: str) -> None:
    for command in commands(long_log):
        ran = in_shell(words, *command)

        assert (1, "") == (ran.returncode, ran.stdout), command
        assert 1 == ran.stderr.count("\n"), (command, ran.stderr)
        assert reason in ran.stderr, command


def test_without_a_place_for_errors_its_exit_code_says_it(long_log: Path) -> None:
    for command in commands(long_log):
        heard, unheard = in_shell('"$@"', *command), in_shell('"$@" 2>&-', *command)

        assert heard.returncode == unheard.returncode, command
        assert "random-uuid" in command or heard.stdout == unheard.stdout, command
