"""An OpenTelemetry collector that takes OTLP and writes files: built once from its released Go modules, and run.

    python -m tests.interop.collector

It goes to `build/otelcol-<version>/`, outside git.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc

from deploy.local.ports import free_ports
from quorate.runtime.clients.client import open_channel

VERSION: Final = "0.159.0"
BUILD: Final = Path(__file__).parents[2] / "build" / f"otelcol-{VERSION}"
PROGRAM: Final = BUILD / "otelcol"
CORE: Final = "go.opentelemetry.io/collector"
CONTRIB: Final = "github.com/open-telemetry/opentelemetry-collector-contrib"
MANIFEST: Final = f"""\
dist: {{name: otelcol, module: example.org/otelcol, output_path: {BUILD}, version: {VERSION}}}
receivers: [{{gomod: {CORE}/receiver/otlpreceiver v{VERSION}}}]
processors:
  - gomod: {CORE}/processor/memorylimiterprocessor v{VERSION}
  - gomod: {CORE}/processor/batchprocessor v{VERSION}
extensions: [{{gomod: {CONTRIB}/extension/healthcheckextension v{VERSION}}}]
exporters:
  - gomod: {CORE}/exporter/otlpexporter v{VERSION}
  - gomod: {CONTRIB}/exporter/fileexporter v{VERSION}
"""
"""The parts for the collector's builder."""
BUILD_TIMEOUT_S: Final = 1_800
"""A minute or two on a machine of its own; on one that others use, much more."""
WITHIN_S: Final = 120.0

MISSING: Final = (
    f"no collector {VERSION} in build/: nothing but our own tests says that our spans are read as a collector writes "
    "them. This test is SKIPPED and shows nothing. `python -m tests.interop.collector` builds one; it needs Go."
)


def absent() -> str | None:
    """Why there can be no judge here, or None when there can."""
    return None if _is_built() else MISSING


def _is_built() -> bool:
    """Whether it is there, of the parts that it is to have."""
    manifest = BUILD / "manifest.yaml"
    return PROGRAM.exists() and manifest.exists() and manifest.read_text() == MANIFEST


def build() -> Path:
    """The program, built when it is not there yet."""
    if _is_built():
        return PROGRAM
    if shutil.which("go") is None:
        raise SystemExit("not on PATH: go. The collector is a Go program: https://go.dev/doc/install")
    BUILD.mkdir(parents=True, exist_ok=True)
    PROGRAM.unlink(missing_ok=True)  # of other parts
    manifest = BUILD / "manifest.yaml"
    manifest.write_text(MANIFEST)
    command = ["go", "run", f"{CORE}/cmd/builder@v{VERSION}", f"--config={manifest}"]
    subprocess.run(command, check=True, timeout=BUILD_TIMEOUT_S, env={**os.environ, "CGO_ENABLED": "0"})
    return PROGRAM


class Collector:
    """One that runs: where it takes OTLP over gRPC."""

    def __init__(self, address: str) -> None:
        self.address = address


@asynccontextmanager
async def collector(directory: Path, *, to_file: Path, to_observer: str) -> AsyncIterator[Collector]:
    """A collector that writes what it gets to a file and passes it on, one export as it came, until the block ends.

    Then all that it took is in the file. Its settings and its output are in `directory`.
    """
    (port,) = free_ports(1)
    made = Collector(f"127.0.0.1:{port}")
    config = directory / "collector.yaml"
    config.write_text(_config(made.address, to_file, to_observer))
    with (directory / "collector.log").open("wb") as output:
        child = await asyncio.create_subprocess_exec(
            PROGRAM, "--config", str(config), stdout=output, stderr=output, start_new_session=True
        )
    try:
        async with open_channel(made.address) as channel, asyncio.timeout(WITHIN_S):
            while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                assert child.returncode is None, (directory / "collector.log").read_text()
                await channel.wait_for_state_change(state)
        yield made
        child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            assert 0 == await child.wait(), (directory / "collector.log").read_text()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def _config(address: str, to_file: Path, to_observer: str) -> str:
    """Without a queue an export is answered when it is in the file and with the observer."""
    return f"""\
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "{address}"}}}}}}}}
exporters:
  file: {{path: "{to_file}"}}
  otlp_grpc:
    endpoint: "{to_observer}"
    tls: {{insecure: true}}
    sending_queue: {{enabled: false}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [file, otlp_grpc]}}}}
"""


if __name__ == "__main__":
    print(f"a collector: {build()}")
