"""The processes of a plan: formatted, started, awaited by their health, ended by their own pid."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.local.plan import Plan, Process

READY_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
RELEASE: Final = "4.3-IV0"
"""The newest metadata.version whose whole release can be had, so that its tools can read what we write."""
_IS_READY: Final = (health_pb2.HealthCheckResponse.SERVING,)
_LISTENS: Final = (*_IS_READY, health_pb2.HealthCheckResponse.NOT_SERVING)
ROOT: Final = Path(__file__).resolve().parents[2]


class NotReady(Exception):
    """A process that did not become ready: which one, and the end of what it wrote."""


class Running:
    """A plan that runs. Every process writes into `<directory>/<name>.log`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._children: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        """Format the directories, start everything, and wait until all of it is ready. Raises NotReady.

        Nothing else is started before the observer listens: the first spans of the others find it.
        """
        self.plan.directory.mkdir(parents=True, exist_ok=True)
        observer, *others = self.plan.processes
        await self.spawn(observer)
        for process in self.plan.quorum:
            await self.format(process)
        await self._answers(observer, _LISTENS)
        for process in others:
            await self.spawn(process)
        await self.ready(self.plan.processes)

    async def spawn(self, process: Process, *, environ: Mapping[str, str] | None = None) -> None:
        """Start one process, with `environ` besides ours; it may have run before."""
        file = self.plan.directory / f"{process.name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in process.settings.items()))
        all_environ = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.plan.observer.address}",
            "GRPC_VERBOSITY": "ERROR",
            **(environ or {}),
        }
        with (self.plan.directory / f"{process.name}.log").open("ab") as output:
            self._children[process.name] = await asyncio.create_subprocess_exec(
                *process.place.enter,
                sys.executable,
                "-m",
                f"services.{process.service}",
                "--config",
                str(file),
                cwd=ROOT,
                env=all_environ,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on
            )

    async def ready(self, processes: Iterable[Process]) -> None:
        """Wait until each says SERVING. Raises NotReady."""
        async with asyncio.TaskGroup() as waiting:
            for process in processes:
                waiting.create_task(self._answers(process, _IS_READY))

    def pid(self, process: Process) -> int:
        """The pid of a process that runs."""
        return self._children[process.name].pid

    def is_up(self, process: Process) -> bool:
        """Was it started, and has it not ended?"""
        child = self._children.get(process.name)
        return child is not None and child.returncode is None

    async def kill(self, process: Process, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal that ends it, and wait for the end; the answer is its exit code."""
        child = self._children[process.name]
        child.send_signal(number)
        return await self.ended(process)

    async def ended(self, process: Process) -> int:
        """Wait until a process ends, by itself or because it was asked to; the answer is its exit code."""
        async with asyncio.timeout(STOP_TIMEOUT_S):
            return await self._children[process.name].wait()

    async def stop(self) -> None:
        """End everything in good order, and by force what does not end; the observer last: it still gets spans."""
        observer = self._children.get(self.plan.observer.name)
        await _end([child for child in self._children.values() if child is not observer])
        await _end([child for child in self._children.values() if child is observer])

    async def format(self, process: Process, *, joins: bool = False) -> None:
        """Format a quorum node's directory, unless it is; one that `joins` knows no voters. Raises NotReady."""
        log_dir = Path(process.settings["metadata.log.dir"])
        log_dir.mkdir(parents=True, exist_ok=True)
        config = self.plan.directory / f"{process.name}.format.properties"
        settings = {
            "process.roles": "controller",
            "node.id": process.settings["node.id"],
            "log.dirs": str(log_dir),
            "listeners": process.settings["listeners"],
            "controller.listener.names": "CONTROLLER",
            **{key: value for key, value in process.settings.items() if key.startswith("controller.quorum.")},
        }
        voters: tuple[str, ...] = ()
        if self.plan.directory_ids:
            first = ("--initial-controllers", self.plan.initial_controllers)
            voters = ("--no-initial-controllers",) if joins else first
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        formatting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quorate.cli", "storage", "format", "--ignore-formatted", *voters),
            *("--config", str(config), "--cluster-id", self.plan.cluster_id, "--release-version", RELEASE),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
        )
        output, _ = await formatting.communicate()
        if formatting.returncode:
            raise NotReady(f"{log_dir} could not be formatted: {output.decode()}")

    async def _answers(self, process: Process, hoped: Collection[int]) -> None:
        """Wait until its health is one of those hoped for. Raises NotReady."""
        child = self._children[process.name]
        async with grpc.aio.insecure_channel(process.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
            while asyncio.get_running_loop().time() < deadline:
                if child.returncode is not None:
                    raise NotReady(f"{process.name} ended with exit code {child.returncode}:\n{self._tail(process)}")
                try:
                    answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=1)
                    if answer.status in hoped:
                        return
                except grpc.aio.AioRpcError:
                    pass  # not listening yet
                await asyncio.sleep(0.05)
        raise NotReady(f"{process.name} is not ready after {READY_TIMEOUT_S:g} s:\n{self._tail(process)}")

    def _tail(self, process: Process) -> str:
        lines = (self.plan.directory / f"{process.name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-15:])


async def _end(children: Sequence[asyncio.subprocess.Process]) -> None:
    alive = [child for child in children if child.returncode is None]
    for child in alive:
        child.terminate()
    if alive:
        await asyncio.wait([asyncio.ensure_future(child.wait()) for child in alive], timeout=STOP_TIMEOUT_S)
    for child in alive:
        if child.returncode is None:
            child.kill()
            await child.wait()
