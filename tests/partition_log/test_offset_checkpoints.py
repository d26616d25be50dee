"""A log directory's files of one offset a partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.errors import Corrupt
from quorate.partition_log.offset_checkpoints import TopicPartition, read_offsets, write_offsets


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    offsets = {TopicPartition("b", 10): 3, TopicPartition("a", 0): 1 << 40}
    assert {} == read_offsets(path)
    write_offsets(path, offsets)

    assert b"0\n2\na 0 1099511627776\nb 10 3\n" == path.read_bytes()
    assert offsets == read_offsets(path)


BAD = {
    "1\n0\n": "version 1; only 0 is spoken",
    "": "version missing; only 0 is spoken",
    "0\n2\na 0 1\n": "1 offsets, and 2 are announced",
    "0\n1\na 0\n": "line 3 is 'a 0'; expected: topic partition offset",
    "0\n1\na x 1\n": "line 3 is 'a x 1'; expected: topic partition offset",
}


@pytest.mark.parametrize(("text", "reason"), BAD.items(), ids=BAD.values())
def test_a_file_that_is_not_right_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text(text)
    with pytest.raises(Corrupt) as error:
        read_offsets(path)
    assert f"{path}: {reason}" == str(error.value)
