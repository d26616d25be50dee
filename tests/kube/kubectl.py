"""kubectl and helm, as an administrator calls them from the machine of the control plane."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kube.machine import Machine
from tests.kube.places import PROGRAMS

COMMAND_S: Final = 600


class Refused(Exception):
    """A command ended with an error; what it said."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Commands in one namespace of Kubernetes, or in none."""

    machine: Machine
    kubeconfig: Path
    namespace: str = "default"

    def within(self, namespace: str) -> Kubectl:
        """The same for another namespace."""
        return Kubectl(self.machine, self.kubeconfig, namespace)

    def __call__(self, *arguments: object, text: str | None = None) -> str:
        """What `kubectl ARGUMENTS` prints. Raises Refused."""
        return self._run("kubectl", arguments, text)

    def helm(self, *arguments: object) -> str:
        """What `helm ARGUMENTS` prints. Raises Refused."""
        return self._run("helm", arguments, None)

    def apply(self, manifest: str) -> str:
        """Applies objects, as YAML or JSON."""
        return self("apply", "-f", "-", text=manifest)

    def get(self, *arguments: object) -> dict[str, Any]:
        """An object, or a list of them, as Kubernetes has it."""
        found: dict[str, Any] = json.loads(self("get", *arguments, "-o", "json"))
        return found

    def is_ready(self, kind: str, name: str) -> bool:
        """Whether the object is there and says that it is ready."""
        try:
            conditions = self.get(kind, name)["status"].get("conditions", [])
        except Refused:
            return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """Pods by labels."""
        found: list[dict[str, Any]] = self.get("pods", "-l", selector)["items"]
        return found

    def _run(self, program: str, arguments: Sequence[object], text: str | None) -> str:
        # Its network is the machine's; its files are the host's.
        command = [PROGRAMS / program, "--kubeconfig", self.kubeconfig, "-n", self.namespace, *arguments]
        done = subprocess.run(
            [*self.machine.enter(all_namespaces=False), *map(str, command)],
            check=False,
            capture_output=True,
            text=True,
            input=text,
            timeout=COMMAND_S,
        )
        if done.returncode != 0:
            raise Refused(f"{program} {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}".strip())
        return done.stdout
