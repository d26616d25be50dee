"""Keeps the files of one node's certificate beside its processes: `python -m services.quorum.own_certificate`.

The pods of a StatefulSet have one template, which can mount the certificates of all nodes and not those of its own
node alone. This program runs in a container beside the others, the only one that mounts them all. It listens nowhere,
and copies those of its own node to where the processes that are called look for theirs, again whenever they change:
Kubernetes does not renew files that are mounted by a `subPath`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.nouns import NodeId
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger
from quorate.runtime.process import configured
from quorate.runtime.settings.config import ConfigError, setting
from quorate.runtime.settings.setting_types import integer, milliseconds, text

__all__ = ["OwnCertificateConfig"]

log = logger(__name__)

FILES: Final = ("tls-combined.pem", "ca.crt")
"""In the order in which they are copied: with the last one all are there, for which the pod's other containers wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificateConfig:
    """Whose files are copied, from where and to where."""

    node_id: NodeId = setting("node.id", integer(0, 2**31 - 1), "The node's id.")
    of_nodes: str = setting("certificates.of.nodes", text(), "A directory with one for each node, named by its id.")
    own: str = setting("certificates.own", text(), "The directory in which this node's processes look for theirs.")
    look_ms: int = setting("certificates.look.interval.ms", milliseconds(1), "How often it is looked.", default=1_000)


def copied(there: Path, own: Path) -> list[str]:
    """Copies those of `FILES` that differ from directory `there` to `own`, and returns the names that were copied.

    Each is written under another name, readable by its owner alone, and renamed. Raises OSError, such as
    FileNotFoundError for one that is not there; those before it are copied then.
    """
    changed = []
    for name in FILES:
        content = (there / name).read_bytes()
        target = own / name
        if target.exists() and target.read_bytes() == content:
            continue
        written = own / f".{name}"
        written.unlink(missing_ok=True)
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        written.rename(target)
        changed.append(name)
    return changed


async def main(life: ServiceLife) -> None:
    """Copies the certificate's files now, and again whenever they change, until asked to stop.

    Raises ConfigError if a file is not there at the start; one that goes later is only logged. Raises OSError.
    """
    config = configured(OwnCertificateConfig)
    there, own = Path(config.of_nodes, str(config.node_id)), Path(config.own)
    try:
        _copy(there, own)
    except FileNotFoundError as absent:
        raise ConfigError([f"{absent.filename}: there is no certificate of node {config.node_id}"]) from None
    stopping = asyncio.ensure_future(life.stopping())
    while not stopping.done():
        await asyncio.wait([stopping], timeout=config.look_ms / 1000)
        try:
            _copy(there, own)
        except FileNotFoundError as absent:
            log.warning("a file of the certificate is gone; the last one stays", file=absent.filename)
    await stopping


def _copy(there: Path, own: Path) -> None:
    if changed := copied(there, own):
        log.info("took the files of this node's certificate", files=",".join(changed), of=str(there))


if __name__ == "__main__":
    raise SystemExit(run(main))
