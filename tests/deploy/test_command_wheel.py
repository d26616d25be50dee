"""The command as a wheel: what it says of a Kafka node's directory where nothing else of ours is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.pyspark.build import ROOT, UV

NODE = ROOT / "tests/interop/fixtures/three-dynamic/controller-1"
OURS = (
    "import importlib.util; print([each for each in ('services', 'deploy', 'grpc') if importlib.util.find_spec(each)])"
)


def test_it_reads_a_directory_where_only_its_wheel_is_installed(tmp_path: Path) -> None:
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT / "libs")], check=True)
    (wheel,) = tmp_path.glob("quorate-*.whl")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True)
    here = tmp_path / "env" / "bin"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(here / "python"), str(wheel)], check=True)

    def run(*command: object) -> str:
        environment = {"PATH": os.environ["PATH"]}
        return subprocess.check_output(list(map(str, command)), cwd=tmp_path, env=environment, text=True)

    assert "[]\n" == run(here / "python", "-c", OURS)
    assert run(here / "quorate", "--version").startswith("quorate ")
    assert f"{NODE}: sound (" in run(here / "quorate", "log", "verify", NODE)
    assert "Partitions (" in run(here / "quorate", "image", "show", "--offline", NODE)
    assert "16 rows, as of offset " in run(
        here / "quorate", "sql", "SELECT * FROM replicas LIMIT 16", "--offline", NODE
    )
    assert 22 == len(run(here / "quorate", "storage", "random-uuid").strip())
    asked = [str(here / "quorate"), "sql", "SELECT 1", "--observer", "127.0.0.1:1"]
    refused = subprocess.run(asked, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (2, True) == (refused.returncode, "needs gRPC, and grpc is not installed" in refused.stderr), refused
