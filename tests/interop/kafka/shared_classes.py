"""An archive of the classes that a node of a Kafka release loads (JEP 350): each JVM of the tests starts from it.

python -m tests.interop.kafka.shared_classes    makes those of all releases, where they are not there yet
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.kafka.node import Node
from deploy.kafka.release import POM, QUICK, shared_classes
from deploy.local.kafka import HEAP
from deploy.local.ports import HOST, free_ports
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from tests.interop.kafka.judge import controller_properties
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM

BROKER: Final = "PLAINTEXT"


def make(pom: Path) -> Path:
    """Runs a node that is broker and controller until it serves; at its end it writes what it has loaded."""
    made = shared_classes(pom)
    if not made.exists():
        with TemporaryDirectory(prefix="shared-classes-") as directory:
            # Renamed when it is whole: others may start JVMs meanwhile.
            part = made.with_suffix(f".{os.getpid()}")
            with _node(Path(directory), pom, part) as node:
                node.format(uuid_text(random_uuid()))
                node.start().wait_ready().stop()
            part.rename(made)
    return made


def _node(directory: Path, pom: Path, made: Path) -> Node:
    controller_port, port = free_ports(2)
    of_controller = controller_properties(1, controller_port, directory / "data")
    both = {
        "process.roles": "broker,controller",
        "listeners": f"{BROKER}://{HOST}:{port},{of_controller['listeners']}",
        "listener.security.protocol.map": f"{of_controller['listener.security.protocol.map']},{BROKER}:PLAINTEXT",
    }
    options = (*QUICK, f"-XX:ArchiveClassesAtExit={made}")
    return Node(directory, of_controller | both, pom=pom, heap=HEAP, options=options)


if __name__ == "__main__":
    for each in (POM, OPERATIONS_POM, OLDEST_POM):
        print(f"its loaded classes: {make(each)}")
