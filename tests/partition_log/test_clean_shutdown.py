"""The mark of a clean stop: who finds one, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.partition_log.clean_shutdown import UNKNOWN_EPOCH, leave_mark, read_mark, remove_mark
from quorate.partition_log.names import CLEAN_SHUTDOWN


def test_a_mark_says_the_epoch_of_the_stop_until_it_is_removed(tmp_path: Path) -> None:
    leave_mark(tmp_path, broker_epoch=4_711)

    assert b'{"version":0,"brokerEpoch":4711}' == (tmp_path / CLEAN_SHUTDOWN).read_bytes()
    assert 4_711 == read_mark(tmp_path)

    remove_mark(tmp_path)
    remove_mark(tmp_path)

    assert read_mark(tmp_path) is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1]", b"7", b'{"version":0}', b'{"brokerEpoch":"7"}', b"\xff\0", b"null"]
)
def test_a_mark_that_says_no_epoch_is_one_of_a_clean_stop_all_the_same(tmp_path: Path, text: bytes) -> None:
    """An older Kafka leaves an empty file; the controller then takes the stop for unclean."""
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(text)

    assert UNKNOWN_EPOCH == read_mark(tmp_path)
