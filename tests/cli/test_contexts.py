"""Contexts: options that a command lacks come from the current one, and no others."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.directories import KAFKA_NODES, run

TEXT = """# ours
current = "one"

[contexts.one]
controller = "c1:1,c2:2"
observer = "127.0.0.1:1"

[contexts."and two"]
controller = "d1:1"
bootstrap-controller = "127.0.0.1:2"
command-config = "two.properties"
"""
CONFIG = "security.protocol=SSL\nssl.keystore.location=/k.pem\nssl.truststore.location=/t.pem\n"


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "contexts.toml"
    path.write_text(TEXT)
    (tmp_path / "two.properties").write_text(CONFIG)
    monkeypatch.setenv("QUORATE_CONTEXTS", str(path))
    monkeypatch.delenv("QUORATE_CONTEXT", raising=False)
    return path


def line_of(*words: object) -> list[str]:
    """The line of grpcurl that a command would do."""
    ran = run(*words, "--print-grpcurl")
    assert (0, "") == (ran.code, ran.err)
    return shlex.split(ran.out)


def test_a_write_goes_where_the_current_context_says_and_where_it_is_told(
    contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS is by the context's file, beside that of the contexts; it is not for who is named otherwise."""
    words = ("topics", "delete", "a")
    current, told = line_of(*words), line_of(*words, "--controller", "h:1")
    monkeypatch.setenv("QUORATE_CONTEXT", "and two")
    other, other_told = line_of(*words), line_of(*words, "--controller", "h:1")

    assert ["c1:1", "h:1", "d1:1", "h:1"] == [line[-2] for line in (current, told, other, other_told)]
    assert ["-plaintext"] * 3 == [line[1] for line in (current, told, other_told)]
    assert ["-cacert", "/t.pem"] == other[1:3]


def test_a_read_goes_to_the_observer_or_else_to_the_quorum_but_files_are_read_as_told(
    contexts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_files = run("topics", "--offline", KAFKA_NODES[0], "--json")
    observer = [run(*words) for words in (["topics"], ["doctor"], ["history"], ["trace", "list"], ["sql", "SELECT 1"])]
    past = [run("topics", "--as-of", 5), run("doctor", "--as-of", 5), run("image", "show", "--with-open-transaction")]
    monkeypatch.setenv("QUORATE_CONTEXT", "and two")
    (tmp_path / "two.properties").write_text("default.api.timeout.ms=100\n")
    quorum = [run(*words) for words in (["topics"], ["topics", "--as-of", 5], ["restart-safe", "--controllers"])]

    assert (0, "") == (of_files.code, of_files.err)
    assert [(3, True)] * 5 == [(each.code, "127.0.0.1:1: failed to connect" in each.err) for each in observer], observer
    assert [(3, True)] * 2 == [(each.code, "127.0.0.1:1: failed to connect" in each.err) for each in past[:2]]
    assert (2, True) == (past[2].code, "give --offline or --bootstrap-controller" in past[2].err)
    assert [(3, True)] * 3 == [(each.code, each.err.startswith("quorate: 127.0.0.1:2: ")) for each in quorum], quorum


def test_another_context_is_used_from_then_on_and_the_file_is_as_it_was(contexts: Path) -> None:
    used = run("context", "use", "and two")
    listed = run("context", "list")

    assert (0, "") == (used.code, used.out + used.err)
    assert TEXT.replace('current = "one"', 'current = "and two"') == contexts.read_text()
    assert ["  one", "* and two"] == [line.split("  controller")[0] for line in listed.out.splitlines()[:2]]
    assert "d1:1" == line_of("topics", "delete", "a")[-2]


def test_the_first_that_is_used_is_written_before_the_tables(contexts: Path) -> None:
    contexts.write_text(TEXT.replace('current = "one"\n', ""))
    none = run("topics", "delete", "a", "--print-grpcurl")
    used = run("context", "use", "one")

    assert (2, 0) == (none.code, used.code)
    assert contexts.read_text().startswith('current = "one"\n# ours\n')
    assert "c1:1" == line_of("topics", "delete", "a")[-2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("current = ", "it is no TOML"),
        ('currant = "one"', "currant is not known; known are current and contexts"),
        ('[contexts.one]\ncontrolers = "h:1"', "contexts.one.controlers is not known; known are controller, observer"),
        ("[contexts.one]\ncontroller = 1", "contexts.one.controller is a text; this is 1"),
        ("contexts = 1", "contexts is a table"),
        ('current = "two"\n[contexts.one]', "current: no context is called 'two'; there are: one"),
    ],
)
def test_what_is_no_file_of_contexts_is_named_with_the_key(contexts: Path, text: str, words: str) -> None:
    contexts.write_text(text)
    ran = run("topics", "delete", "a")

    assert (2, True, True) == (ran.code, words in ran.err, str(contexts) in ran.err), ran


def test_without_a_file_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUORATE_CONTEXTS", str(tmp_path / "none.toml"))
    monkeypatch.setenv("QUORATE_CONTEXT", "one")
    ran = run("context", "list")

    assert (2, True) == (ran.code, "QUORATE_CONTEXT: no context is called 'one'; there are: none" in ran.err)
