"""Runs the processes of a plan: formats directories, starts processes, waits for their health, ends them by pid."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.local.launching import ROOT as ROOT
from deploy.local.launching import Child, launch
from deploy.local.plan import ClusterPlan, Process
from quorate.cli import formatting
from quorate.cli.failures import Failed
from quorate.cli.node_config import read_node_config
from quorate.errors import Corrupt
from quorate.runtime.calls.health import READINESS, STARTUP
from quorate.runtime.event_loop import loop

READY_TIMEOUT_S: Final = 120.0
"""Time limit of a start: each process needs seconds of CPU time, and 61 s in all were measured on a busy machine."""
STOP_TIMEOUT_S: Final = loop.STOP_TIMEOUT_S + 10
"""Time limit of a stop; a service gives itself a little less, and then ends by itself."""
WATCH_AGAIN_S: Final = 0.05
RECONNECT: Final = (
    # gRPC waits 1 s before it reconnects, then 1.6 times longer each time: a server was found up to 4 s too late.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
)
"""gRPC channel options for a fast reconnect; 100 ms is gRPC's minimum."""
_IS_READY: Final = (health_pb2.HealthCheckResponse.SERVING,)
_LISTENS: Final = (*_IS_READY, health_pb2.HealthCheckResponse.NOT_SERVING)


class NotReady(Exception):
    """Raised when a process did not become ready; the message has its name and the end of its log."""


class Running:
    """The running processes of a plan; each writes its log to `<directory>/<name>.log`."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self._children: dict[str, Child] = {}

    async def start(self) -> None:
        """Formats the directories, starts all processes, and waits until all are ready. Raises NotReady.

        The observer is started first and must listen before the others, so that it gets their first spans.
        """
        self.plan.directory.mkdir(parents=True, exist_ok=True)
        if self.plan.is_observed:
            await self.spawn(self.plan.observer)
        for process in self.plan.quorum:
            await self.format(process)
        if self.plan.is_observed:
            await self._answers(self.plan.observer, _LISTENS)
        for process in self.plan.processes:
            if process is not self.plan.observer:
                await self.spawn(process)
        await self.ready(self.plan.processes)

    async def spawn(self, process: Process, *, environ: Mapping[str, str] | None = None) -> None:
        """Starts one process, or restarts one that has ended; `environ` is added to this process's environment."""
        file = self.plan.directory / f"{process.name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in process.settings.items()))
        all_environ = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.plan.traces,
            "GRPC_VERBOSITY": "ERROR",
            **(environ or {}),
        }
        with (self.plan.directory / f"{process.name}.log").open("ab") as output:
            self._children[process.name] = await launch(
                (*process.place.enter, sys.executable, "-m", f"services.{process.service}", "--config", str(file)),
                environ=all_environ,
                output=output.fileno(),
            )

    async def ready(self, processes: Iterable[Process]) -> None:
        """Waits until each process reports SERVING; for a quorum node, that it has started: its peers may come later.

        Raises NotReady for the first that ends or exceeds the limit.
        """
        try:
            async with asyncio.TaskGroup() as waiting:
                for process in processes:
                    waiting.create_task(self._answers(process, _IS_READY))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None

    def pid(self, process: Process) -> int:
        """Returns the pid of a running process."""
        return self._children[process.name].pid

    def is_up(self, process: Process) -> bool:
        """Whether the process was started and has not ended."""
        child = self._children.get(process.name)
        return child is not None and child.returncode is None

    async def kill(self, process: Process, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal that ends the process and waits for its end; returns its exit code. Raises TimeoutError."""
        child = self._children[process.name]
        child.send_signal(number)
        return await self.ended(process)

    async def ended(self, process: Process, *, within_s: float = STOP_TIMEOUT_S) -> int:
        """Waits until a process has ended; returns its exit code. Raises TimeoutError."""
        async with asyncio.timeout(within_s):
            return await self._children[process.name].wait()

    async def stop(self) -> None:
        """Stops all processes with SIGTERM, then SIGKILL; the observer last, as it still receives spans."""
        observer = self._children.get(self.plan.observer.name)
        await _end([child for child in self._children.values() if child is not observer])
        await _end([child for child in self._children.values() if child is observer])

    async def format(self, process: Process, *, joins: bool = False) -> None:
        """Formats a quorum node's directory if it is not yet; with `joins` without first voters. Raises NotReady."""
        log_dir = Path(process.settings["metadata.log.dir"])
        log_dir.mkdir(parents=True, exist_ok=True)
        config = self.plan.directory / f"{process.name}.format.properties"
        settings = {
            "process.roles": "controller",
            "node.id": process.settings["node.id"],
            "log.dirs": str(log_dir),
            "listeners": process.settings["listeners"],
            "controller.listener.names": process.settings["listeners"].partition("://")[0],
            **{key: value for key, value in process.settings.items() if key.startswith("controller.quorum.")},
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        asked = formatting.FormatOptions(
            cluster_id=self.plan.cluster_id,
            initial_controllers=self.plan.initial_controllers if self.plan.directory_ids and not joins else None,
            no_initial_controllers=bool(self.plan.directory_ids) and joins,
            release_version=self.plan.release,
            scram=() if joins else self.plan.users,
            ignore_formatted=True,
        )
        try:
            await asyncio.to_thread(_format, config, asked)
        except (Failed, Corrupt, OSError) as problem:
            raise NotReady(f"{log_dir} could not be formatted: {problem}") from None

    async def _answers(self, process: Process, hoped: Collection[int]) -> None:
        """Waits until a process's health status is in `hoped`. Raises NotReady if it ends or exceeds the limit."""
        child = self._children[process.name]
        heard, ended = asyncio.ensure_future(_heard(self.plan, process, hoped)), asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait((heard, ended), timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                return heard.result()
        finally:
            heard.cancel()
            ended.cancel()
            await asyncio.wait((heard, ended))
        if child.returncode is not None:
            raise NotReady(f"{process.name} ended with exit code {child.returncode}:\n{self._tail(process)}")
        load = os.getloadavg()[0]
        why = f"{process.name} runs and is not ready after {READY_TIMEOUT_S:g} s; the load is {load:.1f}"
        raise NotReady(f"{why} on {os.cpu_count()} processors:\n{self._tail(process)}")

    def _tail(self, process: Process) -> str:
        lines = (self.plan.directory / f"{process.name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-15:])


def _format(config: Path, asked: formatting.FormatOptions) -> None:
    """Formats a node as `quorate storage format` does, in this process. Raises Failed, Corrupt and OSError."""
    formatting.write(formatting.plan(asked, read_node_config(config)), timestamp_ms=time.time_ns() // 1_000_000)


async def _heard(plan: ClusterPlan, process: Process, hoped: Collection[int]) -> None:
    """Watches a process until its health status is in `hoped`."""
    asked = health_pb2.HealthCheckRequest(service=STARTUP if process.service == "quorum" else READINESS)
    async with plan.transport_to(process).open_channel(process.address, RECONNECT) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                async for answer in health.Watch(asked, wait_for_ready=True):
                    if answer.status in hoped:
                        return
            except grpc.aio.AioRpcError:
                pass  # it went away while it was watched
            await asyncio.sleep(WATCH_AGAIN_S)


async def _end(children: Sequence[Child]) -> None:
    alive = [child for child in children if child.returncode is None]
    for child in alive:
        child.terminate()
    if alive:
        await asyncio.wait([asyncio.ensure_future(child.wait()) for child in alive], timeout=STOP_TIMEOUT_S)
    for child in alive:
        if child.returncode is None:
            child.kill()
            await child.wait()
