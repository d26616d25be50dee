"""`--bootstrap-controller`: fetches the committed metadata log of a live Kafka quorum into a temporary directory.

The commands for files then read it there. It is fetched as an observer with replica id -1: nothing on the cluster
changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from quorate.cli.as_of import AsOf
from quorate.cli.dump import dump
from quorate.cli.failures import Misused, Unreached
from quorate.cli.offline import Offline, Watch, load
from quorate.network.client_config import (
    ClientConfig,
    Endpoint,
    parse_bootstrap,
    parse_client_config,
    read_client_properties,
)
from quorate.network.observer import Checkpoint, FetchedBatch, Observer
from quorate.nouns import Offset
from quorate.storage.names import LOG, PARTITION_DIRECTORY, checkpoint_file, segment_file

__all__ = ["LiveQuorum", "dump_live", "load_live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuorum:
    """Where a live quorum is reached: `--bootstrap-controller`, and the client's properties."""

    bootstrap: str
    command_config: Path | None

    def endpoints(self) -> list[Endpoint]:
        """Returns the addresses of `--bootstrap-controller`. Raises Misused."""
        try:
            return parse_bootstrap(self.bootstrap)
        except ValueError as problem:
            raise Misused(f"--bootstrap-controller: {problem}") from None

    def config(self) -> ClientConfig:
        """Returns what the client's properties say, or the defaults. Raises Misused, naming the property; OSError."""
        if self.command_config is None:
            return ClientConfig()
        try:
            return parse_client_config(read_client_properties(self.command_config))
        except ValueError as problem:
            raise Misused(f"--command-config {problem}") from None


def dump_live(
    live: LiveQuorum, *, output: str, explain: bool, with_secrets: bool, from_offset: Offset, to_offset: Offset | None
) -> None:
    """Fetches the log up to the high watermark, and prints it as `dump` does. Raises what `dump` raises, and Unreached.

    The working directory is a temporary one meanwhile.
    """
    with _fetched(live):
        dump(
            Path(PARTITION_DIRECTORY),
            output=output,
            explain=explain,
            with_secrets=with_secrets,
            from_offset=from_offset,
            to_offset=to_offset,
        )


def load_live(
    live: LiveQuorum, *as_of: AsOf | None, with_open_transaction: bool, watch: Watch | None = None
) -> list[Offline]:
    """Fetches the log up to the high watermark, once, and returns the state at each `as_of`.

    The working directory is a temporary one meanwhile. Raises what `load` raises, and Unreached.
    """
    with _fetched(live) as high_watermark:
        partition = Path(PARTITION_DIRECTORY)
        found = [
            load(partition, name=live.bootstrap, as_of=each, with_open_transaction=with_open_transaction, watch=watch)
            for each in as_of
        ]
    for each in found:
        each.high_watermark = high_watermark
        each.checkpoint = each.checkpoint and Path(each.checkpoint.name)
    return found


@contextmanager
def _fetched(live: LiveQuorum) -> Iterator[Offset]:
    """Yields the high watermark, in a working directory with the log as files. Raises Unreached.

    The files' names are relative in all output, as the directory is removed when it is read.
    """
    endpoints, config = live.endpoints(), live.config()
    with TemporaryDirectory(prefix="quorate-") as name:
        directory = Path(name)
        (directory / PARTITION_DIRECTORY).mkdir()
        try:
            high_watermark = asyncio.run(_fetch(Observer(endpoints, config), _Files(directory / PARTITION_DIRECTORY)))
        except TimeoutError as problem:
            raise Unreached(f"{live.bootstrap}: {problem}") from None
        with chdir(directory):
            yield high_watermark


async def _fetch(observer: Observer, files: _Files) -> Offset:
    async for event in observer.events():
        match event:
            case Checkpoint():
                files.begin(event)
            case FetchedBatch():
                files.append(event)
    return observer.delivered


class _Files:
    """The records that were read, as Kafka's files: a checkpoint if there is one, and one segment after it."""

    def __init__(self, partition: Path) -> None:
        self._partition = partition
        self._segment: Path | None = None

    def begin(self, checkpoint: Checkpoint) -> None:
        """Starts over from a checkpoint that was fetched: it has all that the batches before it changed."""
        for file in self._partition.iterdir():
            file.unlink()
        self._segment = None
        checkpoint_file(self._partition, checkpoint.id).write_bytes(checkpoint.data)

    def append(self, batch: FetchedBatch) -> None:
        """Appends a batch to the segment."""
        self._segment = self._segment or segment_file(self._partition, batch.header.base_offset, LOG)
        with self._segment.open("ab") as out:
            out.write(batch.data)
