"""The JVMs of the tests really start from the archive of loaded classes: one that does not only takes longer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.kafka.release import POM
from tests.interop.kafka import shared_classes
from tests.interop.kafka.clients import PROGRAM
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent, java

TIMEOUT_S = 300
FROM_THE_ARCHIVE = "source: shared objects file (top)"

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]


@pytest.mark.parametrize("pom", [POM, OPERATIONS_POM, OLDEST_POM], ids=["POM", "OPERATIONS_POM", "OLDEST_POM"])
def test_a_jvm_has_its_classes_from_the_archive_also_below_a_program_of_ours(pom: Path) -> None:
    shared_classes.make(pom)
    command = java("kafka.tools.StorageTool", "random-uuid", source=PROGRAM, pom=pom)
    at = command.index("-cp")
    told = [*command[:at], "-Xlog:class+load", *command[at:]]
    ran = subprocess.run(told, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)

    assert FROM_THE_ARCHIVE in ran.stdout


def test_a_jvm_that_cannot_use_the_archive_says_nothing_of_it_in_its_answer(tmp_path: Path) -> None:
    shared_classes.make(POM)
    command = java("kafka.tools.StorageTool", "random-uuid")
    at = command.index("-cp") + 1
    other = [*command[:at], f"{tmp_path}:{command[at]}", *command[at + 1 :]]
    ran = subprocess.run(other, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)

    assert 1 == len(ran.stdout.splitlines())
