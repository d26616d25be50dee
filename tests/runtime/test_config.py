"""Settings from file, environment and command line: which source wins, and how every problem is named at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.runtime.settings.config import ConfigError, HelpAsked, describe, load, setting, settings_table
from quorate.runtime.settings.setting_types import (
    ConfiguredVoter,
    Endpoint,
    ListenerAddress,
    SettingType,
    boolean,
    choice,
    endpoint,
    integer,
    list_of,
    listener,
    milliseconds,
    optional,
    path,
    port,
    size,
    text,
    voter,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A quorum node's, in small."""

    node_id: int = setting("node.id", integer(0), "This node's id.")
    voters: tuple[ConfiguredVoter, ...] = setting(
        "controller.quorum.voters", list_of(voter(), distinct=lambda each: each.id), "The voters.", default=()
    )
    fetch_timeout_ms: int = setting("controller.quorum.fetch.timeout.ms", milliseconds(1), "Patience.", default=2000)
    log_dir: Path = setting(  # noqa: RUF009  (a field, as dataclasses.field is)
        "metadata.log.dir", path(), "Where the log is.", default=Path("/var/lib/quorate")
    )
    password: str = setting("ssl.key.password", text(), "Opens the key.", default="none", secret=True)

    def problems(self) -> Iterator[str]:
        if self.voters and self.node_id not in {each.id for each in self.voters}:
            yield f"node.id = {self.node_id}: is not among controller.quorum.voters"


def test_defaults_hold_where_nothing_is_said() -> None:
    config = load(Config, ["--set", "node.id=1"], {})

    assert Config(node_id=1) == config
    assert (2000, ()) == (config.fetch_timeout_ms, config.voters)


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# one node\nnode.id=1\ncontroller.quorum.fetch.timeout.ms = 10\nmetadata.log.dir=/file\n")
    environ = {"QUORATE_CONTROLLER_QUORUM_FETCH_TIMEOUT_MS": "20", "QUORATE_METADATA_LOG_DIR": "/env"}

    config = load(Config, ["--config", str(file), "--set", "metadata.log.dir=/set"], environ)

    assert (1, 20, Path("/set")) == (config.node_id, config.fetch_timeout_ms, config.log_dir)


@pytest.mark.parametrize("form", [["--config", "{}"], ["--config={}"], []])
def test_the_file_may_be_named_in_three_ways(tmp_path: Path, form: list[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=7")
    environ = {} if form else {"QUORATE_CONFIG": str(file)}

    assert 7 == load(Config, [each.format(file) for each in form], environ).node_id


def test_every_problem_is_named_in_one_message(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("controller.quorum.fetch.timeout.ms=0\nnode.idd=1\ncontroller.quorum.voters=1@a:1,1@b:2\n")

    with pytest.raises(ConfigError) as caught:
        load(Config, ["--config", str(file), "--verbose", "--set", "novalue", "--set", "node.id=-1"], {})

    assert (
        "argument '--verbose': only --config FILE, --set NAME=VALUE and --help are known",
        "argument --set 'novalue': takes NAME=VALUE",
        f"node.idd ({file}): is not a setting of this service; did you mean node.id?",
        "node.id = '-1' (--set): must be an integer of at least 0",
        f"controller.quorum.voters = '1@a:1,1@b:2' ({file}): must be a comma-separated list, each id@host:port, "
        "none twice, at least 1",
        f"controller.quorum.fetch.timeout.ms = '0' ({file}): must be an integer from 1 to 2147483647",
    ) == caught.value.problems
    assert str(caught.value).startswith("6 problems in the configuration: ")


def test_what_is_required_is_missed_by_name() -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, [], {})

    assert ("node.id: is missing; it must be an integer of at least 0",) == caught.value.problems


def test_rules_between_settings_are_checked_on_the_whole() -> None:
    with pytest.raises(ConfigError, match=r"node\.id = 3: is not among controller\.quorum\.voters"):
        load(Config, ["--set", "node.id=3", "--set", "controller.quorum.voters=1@a:1"], {})


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file"), (b"a=\\u12", r"line 1: '\\\\u12' is not an escape"), (b"\xff", "utf-8")],
)
def test_a_file_that_cannot_be_read_is_a_problem_like_others(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "f"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError, match=problem) as caught:
        load(Config, ["--config", str(file)], {})

    assert 2 == len(caught.value.problems)


def test_variables_and_keys_of_others_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\nlisteners=CONTROLLER://:9093\n")
    environ = {"QUORATE_QUORUM_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}

    assert 1 == load(Config, ["--config", str(file)], environ, others=["listeners"]).node_id


def test_a_secret_is_never_shown() -> None:
    config = load(Config, ["--set", "node.id=1"], {"QUORATE_SSL_KEY_PASSWORD": "hunter2"})
    with pytest.raises(ConfigError) as caught:
        load(Config, ["--set", "node.id=1", "--set", "ssl.key.password="], {})

    assert "hunter2" == config.password
    assert "***" == describe(config)["ssl.key.password"]
    assert "hunter2" not in repr(config)
    assert ("ssl.key.password = *** (--set): must be a text that is not empty",) == caught.value.problems


def test_what_is_described_can_be_loaded_again() -> None:
    config = load(Config, ["--set", "node.id=1", "--set", "controller.quorum.voters=1@a:1,2@[::1]:2"], {})
    again = [argument for key, value in describe(config).items() if value for argument in ("--set", f"{key}={value}")]

    assert (
        config.voters
        == load(Config, again, {}).voters
        == (ConfiguredVoter(1, Endpoint("a", 1)), ConfiguredVoter(2, Endpoint("::1", 2)))
    )


def test_help_tells_every_setting_with_unit_default_and_variable() -> None:
    with pytest.raises(HelpAsked) as caught:
        load(Config, ["--set", "node.id=x", "--help"], {})

    printed = str(caught.value)
    assert settings_table(Config) == printed
    assert "node.id  [required]  QUORATE_NODE_ID\n    This node's id. Must be an integer of at least 0." in printed
    assert "controller.quorum.fetch.timeout.ms  [2000 ms]  QUORATE_CONTROLLER_QUORUM_FETCH_TIMEOUT_MS" in printed


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (integer(-1, 3), {"-1": -1, "3": 3}, ["4", "-2", "1_0", "٣", "", "1.0", "+1", "9" * 20]),
        (integer(0), {"0": 0, "9223372036854775807": 2**63 - 1}, ["-1", "x"]),
        (milliseconds(1), {"1": 1, "2147483647": 2**31 - 1}, ["0", "2147483648", "1s"]),
        (size(1, 10), {"10": 10}, ["11"]),
        (port(), {"0": 0, "65535": 65535}, ["65536", "-1"]),
        (boolean(), {"true": True, "FALSE": False}, ["1", "yes", ""]),
        (text(), {"a b": "a b"}, [""]),
        (path(), {"/a": Path("/a"), "b": Path("b")}, [""]),
        (choice("a", "b"), {"a": "a"}, ["A", "c", ""]),
        (endpoint(), {"h:1": Endpoint("h", 1), "[::1]:2": Endpoint("::1", 2)}, ["h", ":1", "h:0", "h:65536", "a b:1"]),
        (voter(), {"3@h:9093": ConfiguredVoter(3, Endpoint("h", 9093))}, ["h:1", "@h:1", "-1@h:1", "2147483648@h:1"]),
        (
            listener(),
            {
                "CONTROLLER://:0": ListenerAddress("CONTROLLER", Endpoint("", 0)),
                "A://h:1": ListenerAddress("A", Endpoint("h", 1)),
            },
            ["://h:1", "h:1", "A:h:1", "A B://h:1"],
        ),
        (list_of(integer(0)), {"1,2, 3": (1, 2, 3)}, ["", "1,1", "1,,2", "1,x"]),
        (list_of(integer(0), low=0), {"": ()}, [","]),
        (optional(integer(0)), {"": None, "1": 1}, ["x"]),
    ],
    ids=lambda value: value.rule if isinstance(value, SettingType) else "",
)
def test_a_kind_takes_the_good_and_refuses_the_bad(
    kind: SettingType[Any], good: dict[str, object], bad: list[str]
) -> None:
    assert good == {value: kind.parse(value) for value in good}
    assert all(kind.parse(kind.write(kind.parse(value))) == kind.parse(value) for value in good)
    for value in bad:
        with pytest.raises(ValueError):  # noqa: PT011  (the rule is the message, and the kind says it)
            kind.parse(value)


@given(st.text(max_size=40))
def test_no_text_breaks_a_kind_in_another_way(value: str) -> None:
    for kind in (integer(0, 9), endpoint(), voter(), listener(), boolean(), list_of(voter())):
        try:
            kind.parse(value)
        except ValueError:
            continue


def test_the_rule_of_a_listener_says_which_ports_there_are() -> None:
    """A port of 70000 would else be refused by a rule that it keeps."""
    assert "NAME://host:port with a port from 0 to 65535" == listener().rule
