"""The wheel pyspark-kraft: what is in it, and its README's example in an environment that has nothing else of ours."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from deploy.pyspark.build import HERE, PACKAGE, ROOT, UV, build
from deploy.spark import HOW_TO_GET, environment, is_installed

LOGS = ROOT / "tests/interop/fixtures/three-dynamic/controller-1"
SPARK = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "dateutil", "pytz", "tzdata", "six")
"""What an environment with PySpark has; the first parts of the names in site-packages."""
ABOUT = """
import importlib.util, json
print("found:", json.dumps([name for name in ("quorate", "kraft", "services") if importlib.util.find_spec(name)]))
print("changes:", records.where("type = 'PARTITION_CHANGE_RECORD' and offset > 10").count())
spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
print("once:", ONCE.count())
try:
    spark.read.format("kraft").option("endpoints", "127.0.0.1:1").load().count()
except Exception as problem:
    print("endpoints:", *[line for line in str(problem).splitlines() if "ModuleNotFoundError: " in line][:1])
print("pushed:", records.where("type = 'PARTITION_CHANGE_RECORD' and offset > 10").count())
spark.stop()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree as it is."""
    return build(tmp_path_factory.mktemp("wheel"))


def test_all_its_modules_import_only_each_other_and_what_it_requires(wheel: Path) -> None:
    about = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    modules = {
        "protobuf": "google",
        "crc32c": "crc32c",
        "msgspec": "msgspec",
        "numpy": "numpy",
        "pyarrow": "pyarrow",
        "tenacity": "tenacity",
    }
    of_extras = {"grpc", "grpc_health", "grpc_reflection", "grpc_status", "opentelemetry", "hdfs_native"}
    allowed = {modules[re.match(r"[\w-]+", each)[0]] for each in about["dependencies"]} | of_extras  # type: ignore[index]
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.endswith(".py")]
        for name in names:
            for node in ast.walk(ast.parse(packed.read(name))):
                match node:
                    case ast.Import(names=each):
                        found |= {alias.name.split(".")[0] for alias in each}
                    case ast.ImportFrom(module=str(module)):
                        found.add(module.split(".")[0])

    assert all(name.startswith(f"{PACKAGE}/") for name in names)
    assert f"{PACKAGE}/quorate/pipeline/rows.py" in names
    assert [] == [name for name in names if "/bronze/" in name or "/controller/engine/" in name]
    assert {PACKAGE, "pyspark", "pyarrow"} <= found
    assert set() == found - {PACKAGE, "pyspark", *allowed} - set(sys.stdlib_module_names) - {"typing_extensions"}


def test_its_version_and_requirements_are_those_of_the_library() -> None:
    ours = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    library = tomllib.loads((ROOT / "libs/pyproject.toml").read_text())["project"]
    known = {*library["dependencies"], *library["optional-dependencies"]["services"]}

    assert library["version"] == ours["version"]
    assert library["requires-python"] == ours["requires-python"]
    assert {"numpy>=2", "pyarrow>=20"} == set(ours["dependencies"]) - known
    assert set() == set(ours["optional-dependencies"]["quorate"]) - known


@pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET)
@pytest.mark.timeout(1_800)
def test_the_example_of_its_readme_runs_where_only_it_and_a_pyspark_are_installed(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True)
    (packages,) = (tmp_path / "env/lib").glob("python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if re.split(r"[.-]", each.name)[0] in SPARK and not (packages / each.name).exists():
            (packages / each.name).symlink_to(each)
    (example,) = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert "/var/lib/kafka/metadata" in example
    script = tmp_path / "elsewhere/example.py"
    script.parent.mkdir()
    (once,) = re.findall(r"^    (records\.where.*dropDuplicates.*)$", (HERE / "README.md").read_text(), re.MULTILINE)
    script.write_text(example.replace("/var/lib/kafka/metadata", str(LOGS)) + ABOUT.replace("ONCE", once))

    ran = subprocess.run(
        [str(python), script.name],
        cwd=script.parent,
        env={
            "PATH": os.environ["PATH"],
            **environment(),
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell",
        },
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )

    assert 0 == ran.returncode, ran.stderr
    assert "found: []" in ran.stdout
    assert "|offset|" in ran.stdout
    (changes,) = re.findall(r"changes: (\d+)", ran.stdout)
    assert int(changes) > 0
    assert f"pushed: {changes}" in ran.stdout
    assert "once: 239\n" in ran.stdout
    assert (
        "the option endpoints needs gRPC, and grpc is not installed: pip install 'pyspark-kraft[quorate]'" in ran.stdout
    )
