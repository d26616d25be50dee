"""The certificates of a process's listeners: taken from their files at the start, and again when the files change."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from quorate.runtime.logging.logs import logger
from quorate.tls.watched_files import LOOK_AGAIN_S, WatchedFiles

__all__ = ["ListenerTls", "watch_files"]

log = logger(__name__)


class ListenerTls:
    """The TLS of one listener: a call returns the SSL context for the next connection.

    `look` takes the files again when they have changed. Connections that are open stay as they are. Files that are not
    as they should be are refused, and the last good ones stay in use.
    """

    def __init__(self, name: str, files: Sequence[Path], read: Callable[[], ssl.SSLContext]) -> None:
        """`read` makes a context from the `files` of the listener with this name. Raises what it raises: ValueError."""
        self._name = name
        self._files = files
        self._watched = WatchedFiles(files)
        self._read = read
        self._context = read()

    def __call__(self) -> ssl.SSLContext:
        return self._context

    def look(self) -> None:
        """Takes the files if they have changed. Wrong ones are not taken, and each such state is logged once."""
        refusal = self._watched.look(self._take)
        if refusal is not None:
            what = "the new certificate is not taken, and the old one stays"
            log.warning(what, listener=self._name, reason=refusal)

    def _take(self) -> None:
        self._context = self._read()
        log.info("took a new certificate", listener=self._name, files=", ".join(map(str, self._files)))


async def watch_files(listeners: Sequence[ListenerTls]) -> None:
    """Has every listener look at its certificate files each second, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        for each in listeners:
            each.look()
