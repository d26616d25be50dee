"""Machines made of namespaces: each with its network, mounts, processes and name, on a switch that they share.

A machine ends by the end of its first process: the kernel ends the others, and with them go interfaces, rules and
mounts. Its cgroups are removed one by one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.kube.places import ROOT

CGROUPS: Final = Path("/sys/fs/cgroup")
CGROUP: Final = "quorate-kube"
SHARES: Final = 16 * 1024
"""Of the processor's time: as many as sixteen processes of the host, which have 1,024 each, as has a new cgroup."""
READY_S: Final = 60
END_S: Final = 60
Spawned = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One that runs: `pid` is its first process as the host counts, `started` when it began, in the kernel's ticks."""

    name: str
    address: str
    directory: Path
    pid: int
    started: int

    def enter(self, *, all_namespaces: bool = True) -> list[str]:
        """The beginning of a command line that runs there; else with its network alone."""
        spaces = ["--mount", "--uts", "--ipc", "--pid"] if all_namespaces else []
        return ["nsenter", "--target", str(self.pid), "--net", *spaces, "--"]

    def run(self, *command: object, text: str | None = None) -> str:
        """What a command prints there. Raises SystemExit with what it says, if it fails."""
        done = subprocess.run(
            [*self.enter(), *map(str, command)], check=False, capture_output=True, text=True, input=text
        )
        if done.returncode != 0:
            raise SystemExit(f"{self.name}: {' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, name: str, command: Sequence[object], environ: Mapping[str, str] | None = None) -> Spawned:
        """A process that stays; its output is in the file `<name>.log` of the machine's directory."""
        with self.log(name).open("ab") as log:
            return _spawn([*self.enter(), *map(str, command)], log, environ)

    def log(self, name: str) -> Path:
        """The output of a process."""
        return self.directory / f"{name}.log"

    @property
    def cgroup(self) -> str:
        """The cgroup under which its pods are, from the hierarchies' roots on."""
        return f"/{CGROUP}/{self.name}"

    @property
    def is_running(self) -> bool:
        """Whether the first process is still the one that was started."""
        return _started(self.pid) == self.started

    def end(self) -> None:
        """Ends all of its processes, and removes its cgroups."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + END_S
        while self.is_running or _has_tasks(self.cgroup):
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not end: pid {self.pid}")
            time.sleep(0.1)
        _remove_cgroup(self.cgroup)


def start_machine(name: str, address: str, directory: Path) -> Machine:
    """A machine with a loopback interface and nothing else; `address` is what it will have on the switch."""
    directory.mkdir(parents=True)
    init = [sys.executable, ROOT / "tests" / "kube" / "machine_init.py", directory, name]
    spaces = ("--net", "--pid", "--uts", "--ipc", "--mount", "--propagation", "private", "--mount-proc", "--fork")
    with (directory / "init.log").open("wb") as log:
        parent = _spawn(["unshare", *spaces, "--kill-child", *map(str, init)], log, None)
    deadline = time.monotonic() + READY_S
    while not (directory / "ready").exists():
        if parent.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{name} did not start: {(directory / 'init.log').read_text()}")
        time.sleep(0.02)
    pid = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()[0])
    machine = Machine(name=name, address=address, directory=directory, pid=pid, started=_started(pid))
    _make_cgroup(machine.cgroup)
    return machine


def connect(switch: Machine, others: Sequence[Machine], *, bits: int = 24) -> None:
    """The first machine has a switch, to which it and the others are connected."""
    switch.run("ip", "link", "add", "switch", "type", "bridge")
    switch.run("ip", "address", "add", f"{switch.address}/{bits}", "dev", "switch")
    switch.run("ip", "link", "set", "switch", "up")
    for number, machine in enumerate(others):
        port = f"port{number}"
        switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", f"wire{number}")
        _move(switch, f"wire{number}", machine)
        switch.run("ip", "link", "set", port, "master", "switch", "up")
        machine.run("ip", "address", "add", f"{machine.address}/{bits}", "dev", f"wire{number}")
        machine.run("ip", "link", "set", f"wire{number}", "up")
        machine.run("ip", "route", "add", "default", "via", switch.address)


def _move(source: Machine, device: str, target: Machine) -> None:
    """From one network to another; the process ids are the host's, so the command is the host's `ip`."""
    subprocess.run(
        [*source.enter(all_namespaces=False), "ip", "link", "set", device, "netns", str(target.pid)], check=True
    )


def _spawn(command: Sequence[str], log: IO[bytes], environ: Mapping[str, str] | None) -> Spawned:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **(environ or {})},
    )


def _started(pid: int) -> int:
    """When a process began, in ticks since the boot; 0 if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def _hierarchies() -> list[Path]:
    return [each for each in CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]


def _make_cgroup(cgroup: str) -> None:
    """One in each hierarchy. A cpuset has no processors before they are set."""
    for hierarchy in _hierarchies():
        place = hierarchy
        for part in cgroup.strip("/").split("/"):
            above, place = place, place / part
            place.mkdir(exist_ok=True)
            if hierarchy.name == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (place / file).write_text((above / file).read_text())
            if hierarchy.name == "cpu":
                (place / "cpu.shares").write_text(str(SHARES))


def _has_tasks(cgroup: str) -> bool:
    return any(
        file.read_text().strip()
        for hierarchy in _hierarchies()
        for file in (hierarchy / cgroup.strip("/")).rglob("cgroup.procs")
    )


def _remove_cgroup(cgroup: str) -> None:
    for hierarchy in _hierarchies():
        place = hierarchy / cgroup.strip("/")
        if place.exists():
            for directory, _, _ in os.walk(place, topdown=False):
                os.rmdir(directory)
            if not any(each.is_dir() for each in place.parent.iterdir()):
                place.parent.rmdir()
