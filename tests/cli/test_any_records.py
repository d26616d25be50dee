"""Logs of sound batches with any records in them, as a tool or a hand may make them: an answer, or one line why not."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Message
from quorate.errors import ApiError
from quorate.metadata.versions import LATEST, version_at
from quorate.records import UnknownRecord, encode_record
from quorate.wire.batch import data_batch
from tests.cli.directories import START_MS, leader_change, run, write_log
from tests.metadata.histories import histories

NUMBERS: Final = (0, -1, 1, 127, -128, 32767, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
TEXTS: Final = ("", "x" * 5_000, "\x1b[2J", "..", "a/b", "1", "-1", "9" * 30)
DOUBLES: Final = (float("nan"), float("inf"), -1e308, -0.0)
COMMANDS: Final = (
    ("image", "show", "--offline"),
    ("image", "diff", "0..", "--offline"),
    ("history", "--offline"),
    ("what-if", "--broker", 1, "--offline"),
    ("restart-safe", "--offline"),
    ("sql", "SELECT * FROM under_min_isr", "--offline"),
    ("sql", "SELECT * FROM directory_load", "--offline"),
    ("log", "dump"),
    ("log", "verify"),
)


def other(value: Any, chance: Random) -> Any:  # Any: a value of whatever type a field has
    """Another value of the same type, mostly one that no controller writes."""
    match value:
        case bool():
            return not value
        case int():
            return chance.choice(NUMBERS)
        case float():
            return chance.choice(DOUBLES)
        case str():
            return chance.choice(TEXTS)
        case tuple():
            return chance.choice(((), value + value, value[:1]))
        case bytes():
            return type(value)(chance.randbytes(len(value)))
    return value


def disturbed(log: list[Message], chance: Random) -> list[Message]:
    """The log with some records changed, left out, twice, or in another order."""
    log = list(log)
    for _ in range(min(len(log), chance.randint(1, 6))):
        place, to = chance.randrange(len(log)), chance.randrange(len(log))
        match chance.randrange(5):
            case 0:
                log.insert(to, log[place])
            case 1:
                log[place], log[to] = log[to], log[place]
            case 2 if len(log) > 1:
                del log[place]
            case _ if not isinstance(log[place], UnknownRecord):
                names = [name for name in log[place].__struct_fields__ if name != "unknown_tags"]
                changed = {name: other(getattr(log[place], name), chance) for name in names[: chance.randint(0, 9)]}
                log[place] = msgspec.structs.replace(log[place], **changed)
    return log


def written(log: list[Message], tmp_path: Path) -> Path:
    """A directory with them; a record whose fields its version cannot carry is left out."""
    batches, offset = [leader_change(1, 0)], 1
    for record in log:
        try:
            value = encode_record(record, version_at(type(record), LATEST))
        except (ApiError, ValueError, OverflowError):
            continue
        batches.append(data_batch(base_offset=offset, epoch=1, timestamp_ms=START_MS, values=[value]))
        offset += 1
    return write_log(tmp_path, batches)


@settings(max_examples=20, deadline=None)
@given(histories(max_size=40), st.randoms(use_true_random=False))
def test_each_command_answers_or_says_in_a_line_why_not(log: list[Message], chance: Random) -> None:
    with TemporaryDirectory() as name:
        directory = written(disturbed(log, chance), Path(name))
        check(directory)


def check(directory: Path) -> None:
    for command in COMMANDS:
        ran = run(*command, directory)

        assert ran.code in (0, 1), (command, ran)
        assert "Traceback" not in ran.err
        assert ran.code == 0 or command[0] in ("log", "restart-safe") or ran.err.startswith("quorate: "), (command, ran)
        assert ran.err.count("\n") <= 1, (command, ran.err)
