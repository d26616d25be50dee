"""The answers of the Raft core as they leave: each with the bytes that it refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.raft import messages as raft
from quorate.raft.log import Read
from services.quorum.disk import Disk
from services.quorum.downloads import Downloads

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of one fetch answer, whatever the request allows: Kafka's `controller.quorum.fetch.max.bytes`."""
READS_BYTES_MAX: Final = 8 * READ_BYTES_MAX
"""Most bytes of all fetch answers in one turn; further answers are empty, and their replicas fetch again."""

Answer = Callable[[raft.Response, bytes], None]
"""A callback that sends one answer, with the bytes that the core asked to read for it."""


class Answers:
    """Sends the core's answers, each with the bytes of the log or a snapshot that it refers to.

    They are read at once, before a later turn of the driver may remove them.
    """

    def __init__(self, disk: Disk, downloads: Downloads) -> None:
        self._disk = disk
        self._downloads = downloads
        self._bytes_left = READS_BYTES_MAX

    def begin_turn(self) -> None:
        """Begins a turn of the driver, whose fetch answers may have `READS_BYTES_MAX` bytes of records together."""
        self._bytes_left = READS_BYTES_MAX

    def send(self, answer: raft.Response, *, now_ms: int) -> None:
        """Sends one answer by the callback that came with its request (`reply_to`). `now_ms` is the monotonic clock.

        A fetch answer has no records if the turn has no bytes left. A snapshot that is read stays for the download.
        """
        data = b""
        if isinstance(answer, raft.FetchResponse) and answer.read is not None:
            data = self._read(answer.read)
        elif isinstance(answer, raft.FetchSnapshotResponse) and answer.read is not None:
            data = self._disk.read_snapshot(answer.read)
            self._downloads.read(answer.read.snapshot_id, now_ms=now_ms)
        reply: Answer = answer.reply_to  # type: ignore[assignment]  # the servicer gave it with the request
        reply(answer, data)

    def _read(self, read: Read) -> bytes:
        if self._bytes_left <= 0:
            return b""
        data = self._disk.read(read.offset, min(read.max_bytes, READ_BYTES_MAX), below=read.below)
        self._bytes_left -= len(data)
        return data
