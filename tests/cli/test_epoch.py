"""`quorate storage reset-epoch` does not go below an epoch of the log, wherever its last batch is."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.storage.names import LEADER_EPOCHS
from tests.cli.directories import END_OFFSET, LAST_EPOCH, a_history, contents, run, write_log

TAKEN_OVER = 2_000_000_000
"""The epoch of another cluster, which the node has in its quorum-state."""


@pytest.mark.parametrize("end", [b"", a_history()[-1][:40]], ids=["empty", "torn at its first batch"])
@pytest.mark.parametrize("is_listed", [True, False])
def test_the_last_segment_may_have_no_batch(tmp_path: Path, end: bytes, is_listed: bool) -> None:
    """A roll makes the file before the batch; without leader-epoch-checkpoint, the segment before it has the epoch."""
    directory = tmp_path / "data"
    partition = write_log(directory, a_history(), epoch=TAKEN_OVER)
    (partition / f"{END_OFFSET:020d}.log").write_bytes(end)
    if not is_listed:
        (partition / LEADER_EPOCHS).unlink()
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\ncontroller.quorum.voters=1@127.0.0.1:19193\nmetadata.log.dir={directory}\n")
    before = contents(partition)

    ran = run("storage", "reset-epoch", "-c", config, "--epoch", LAST_EPOCH)

    assert (1, "") == (ran.code, ran.out)
    assert f"the log in {partition} ends in epoch {LAST_EPOCH}" in ran.err
    assert before == contents(partition)

    ran = run("storage", "reset-epoch", "-c", config, "--epoch", LAST_EPOCH + 1)

    assert (0, "") == (ran.code, ran.err)
    assert f"epoch {TAKEN_OVER} is now {LAST_EPOCH + 1}" in ran.out
