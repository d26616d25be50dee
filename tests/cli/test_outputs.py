"""`--output`: YAML has the documents of JSON, Arrow the rows, and an error is a document as well."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from quorate.cli import documents, tables
from quorate.cli.app import app
from tests.cli.directories import KAFKA_NODES, run

NODE = next(node for node in KAFKA_NODES if node.name == "controller-3")
ELSEWHERE = {
    "context use",  # prints nothing
    "pipeline",  # a program of its own
}
"""Commands without documents."""
ASKED = [
    ["topics"],
    ["partitions", "--only", "under-replicated"],
    ["reassign", "list"],
    ["sql", "SELECT *, 1e300 * 10 AS endless, 0.1 AS tenth, x'00ff' AS bytes FROM columns"],
    ["quorum"],
    ["doctor"],
    ["restart-safe"],
    ["what-if", "--broker", "4"],
    ["features", "plan"],
    ["reassign", "plan", "--drain", "4"],
    ["image", "show"],
    ["image", "diff", "10..40"],
    ["history", "--to", "40"],
]
TEXTS = [
    "1e3",
    "0o7",
    "0x1f",
    "1:30",
    "2026-11-30",
    "y",
    "no",
    "null",
    "~",
    ".inf",
    "plain",
    "a: b",
    "-c",
    "",
    " d",
    "é\x1b",
]
"""Texts that some reader of YAML takes for a number, a date, a boolean, nothing or a structure."""


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each command with its words."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*words, name))
        else:
            yield " ".join((*words, name)), each


def test_each_command_has_yaml_where_it_has_json() -> None:
    for words, command in commands(typer.main.get_command(app)):
        options = {option: each for each in command.params for option in each.opts}
        if words not in ELSEWHERE:
            assert {"--json", "--output"} <= options.keys(), words
            assert {"json", "yaml"} <= set(options["--output"].type_descriptor.choices), words


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_yaml_has_the_documents_of_json(asked: list[str]) -> None:
    as_json, as_yaml = (run(*asked, "--offline", NODE, "--output", each) for each in ("json", "yaml"))
    documents = as_json.documents

    assert documents
    assert (as_json.code, as_json.err) == (as_yaml.code, as_yaml.err)
    assert documents == list(yaml.safe_load_all(as_yaml.out))
    assert as_yaml.out.startswith("---\n")


def test_a_damaged_file_is_told_in_yaml_as_in_json(tmp_path: Path) -> None:
    torn = tmp_path / "00000000000000000000.log"
    torn.write_bytes(next(NODE.rglob(torn.name)).read_bytes()[:-7])

    for words in (["log", "dump", torn], ["log", "verify", torn]):
        as_json, as_yaml = (run(*words, "--output", each) for each in ("json", "yaml"))
        assert (1, 1) == (as_json.code, as_yaml.code)
        assert as_json.documents == list(yaml.safe_load_all(as_yaml.out))


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_one_for_every_reader(text: str) -> None:
    """Without quotes stands only what begins with two letters or more, and is no word of YAML's."""
    told = documents.document_text({text: [text]}, "yaml")

    assert {text: [text]} == yaml.safe_load(told)
    assert (text == "plain") == ("\n- plain" in told)
    assert (text != "plain") == (told.rpartition("\n- ")[2][0] in "'\"")


def test_an_error_is_a_document_of_the_same_kind() -> None:
    as_json, as_yaml = (run("topics", "--offline", "/nowhere", f"--output={each}") for each in ("json", "yaml"))
    expected = {"error": {"message": "/nowhere: No such file or directory", "exitCode": 1}}

    assert (1, expected) == (as_json.code, as_json.document)
    assert (1, expected) == (as_yaml.code, yaml.safe_load(as_yaml.out))
    assert as_json.err == as_yaml.err == "quorate: /nowhere: No such file or directory\n"
    assert "" == run("topics", "--offline", "/nowhere", "-o", "csv").out


def test_two_ways_to_print_are_one_too_many() -> None:
    both = run("doctor", "--offline", NODE, "--json", "--output", "yaml")

    assert (2, True) == (both.code, "--json and --output yaml: give one of them" in both.err)


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    ran = run("topics", "--offline", NODE, "-o", "arrow")

    assert (2, "") == (ran.code, ran.out)
    assert "--output arrow needs pyarrow, which is not installed: pip install 'quorate[arrow]'" in ran.err


@pytest.mark.parametrize("asked", [["partitions"], ["quorum"]], ids=" ".join)
def test_arrow_has_the_rows_of_json(asked: list[str]) -> None:
    _, rows = arrow(*asked)
    document = run(*asked, "--offline", NODE, "--json").document

    assert document.get("rows") or document["replicas"] == rows


def test_a_column_of_arrow_has_the_type_of_all_its_values() -> None:
    query = (
        "SELECT x AS whole, x / 2.0 AS half, iif(x = 1, x, 0.5) AS both, iif(x = 1, 'a', x) AS mixed, "
        "iif(x = 1, x'00ff', 'b') AS shown, x'00ff' AS bytes, NULL AS empty, iif(x = 1, NULL, x) AS some "
        "FROM (SELECT 1 AS x UNION ALL SELECT 2)"
    )
    schema, rows = arrow("sql", query)

    assert ["int64", "double", "double", "string", "string", "binary", "null", "int64"] == [
        str(each) for each in schema.types
    ]
    assert [
        [1, 0.5, 1.0, "a", "00ff", b"\0\xff", None, None],
        [2, 1.0, 0.5, "2", "b", b"\0\xff", None, 2],
    ] == [list(row.values()) for row in rows]
    as_of = run("sql", query, "--offline", NODE, "--json").document["asOfOffset"]
    assert {b"asOfOffset": str(as_of).encode()} == schema.metadata
    assert [] == arrow("topics", "nobody")[1]


def arrow(*asked: str) -> tuple[Any, list[dict[str, Any]]]:
    """The schema and the rows of Arrow's stream."""
    ipc = pytest.importorskip("pyarrow.ipc", reason="pyarrow is not installed: `make spark-setup`")
    command = [sys.executable, "-m", "quorate.cli", *asked, "--offline", str(NODE), "--output", "arrow"]
    ran = subprocess.run(command, capture_output=True, check=True)
    table = ipc.open_stream(io.BytesIO(ran.stdout)).read_all()
    return table.schema, table.to_pylist()
