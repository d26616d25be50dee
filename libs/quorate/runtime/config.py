"""From file, command line and environment to one frozen dataclass, or to one message with every problem.

A service declares its settings once:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Config:
        node_id: int = setting("node.id", integer(0), "This node's id, unique in the cluster.")
        fetch_timeout_ms: int = setting("controller.quorum.fetch.timeout.ms", milliseconds(1), "…", default=2000)

Later sources win: the default, `--config FILE` (or QUORATE_CONFIG), QUORATE_NODE_ID for `node.id`, `--set node.id=1`.
"""

from __future__ import annotations

import dataclasses
import difflib
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from quorate.properties import parse_properties
from quorate.runtime.kinds import Kind

__all__ = ["Checked", "ConfigError", "HelpAsked", "describe", "given_texts", "load", "setting", "settings_table"]

ENV_PREFIX: Final = "QUORATE_"
FILE_VARIABLE: Final = ENV_PREFIX + "CONFIG"

T = TypeVar("T")
C = TypeVar("C")


class ConfigError(Exception):
    """All that is wrong with a configuration, each problem one sentence that names key, value and rule."""

    def __init__(self, problems: Sequence[str]) -> None:
        assert problems
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{count} in the configuration: " + "; ".join(problems))


class HelpAsked(Exception):
    """`--help` is among the arguments: its text is what they ask for."""


@runtime_checkable
class Checked(Protocol):
    """A configuration with rules between its settings."""

    def problems(self) -> Iterator[str]:
        """What does not fit together, one sentence each, naming keys, values and the rule."""
        ...


class _Required:
    """The default of a setting that has none."""


_REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class _Setting:
    key: str
    kind: Kind[Any]  # one table holds settings of every type
    help: str
    default: object
    secret: bool

    @property
    def variable(self) -> str:
        return _variable(self.key)

    @property
    def default_text(self) -> str:
        return "required" if self.default is _REQUIRED else self.kind.write(self.default)


@dataclass(frozen=True, slots=True)
class _Given:
    value: str
    source: str


def setting(key: str, kind: Kind[T], help: str, *, default: T | _Required = _REQUIRED, secret: bool = False) -> T:
    """A field of a configuration: Kafka's name for it, what it may be, and what it does in one line.

    Without `default` it must be given. The value of a `secret` is never printed, nor is it in the `repr`.
    """
    declared = _Setting(key, kind, help, default, secret)
    # `dataclasses.field` is typed the same way: it says the type of the field's value, not its own.
    made: T = dataclasses.field(metadata={"setting": declared}, repr=not secret, **_field_default(default))
    return made


def load(cls: type[C], argv: Sequence[str], environ: Mapping[str, str], *, others: Collection[str] = ()) -> C:
    """The configuration from `argv` (without the program's name) and `environ`.

    `others` are keys that may stand in the file for other services and are passed over. Raises ConfigError with
    every problem, and for `--help` HelpAsked with the table of settings.
    """
    declared = _declared(cls)
    if "--help" in argv or "-h" in argv:
        raise HelpAsked(settings_table(cls))
    problems: list[str] = []
    given = _given(argv, environ, [each.key for each in declared.values()], problems)
    known = {each.key for each in declared.values()}
    problems += _unknown(given, known, known | set(others))
    values = {name: _value(each, given, problems) for name, each in declared.items()}
    if problems:
        raise ConfigError(problems)
    config = cls(**values)
    if isinstance(config, Checked) and (unfit := list(config.problems())):
        raise ConfigError(unfit)
    return config


def given_texts(argv: Sequence[str], environ: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """What is said of `keys`, declared or not, as it was written. For after `load`, which finds what is wrong."""
    given = _given(argv, environ, keys, [])
    return {key: given[key].value for key in keys if key in given}


def describe(config: object) -> dict[str, str]:
    """Every setting in force, by Kafka's name, as text; secrets as `***`. For the log at start."""
    return {
        each.key: "***" if each.secret else each.kind.write(getattr(config, name))
        for name, each in _declared(type(config)).items()
    }


def settings_table(cls: type) -> str:
    """The settings as text: name, default with its unit, what it does and what it may be."""
    lines = ["Settings: --config FILE (properties), --set NAME=VALUE, or the environment variable.", ""]
    for each in _declared(cls).values():
        default = f"{each.default_text} {each.kind.unit}".strip() if each.default_text != "required" else "required"
        lines.append(f"{each.key}  [{default or 'empty'}]  {each.variable}")
        lines += textwrap.wrap(
            f"{each.help} Must be {each.kind.rule}.", 96, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)


def _field_default(default: object) -> dict[str, Any]:
    return {} if default is _REQUIRED else {"default": default}


def _declared(cls: type) -> dict[str, _Setting]:
    """The settings of `cls` by field name."""
    declared: dict[str, _Setting] = {}
    for field in dataclasses.fields(cls):
        each = field.metadata.get("setting")
        assert isinstance(each, _Setting), f"{cls.__name__}.{field.name} is not declared with setting()"
        declared[field.name] = each
    variables = [each.variable for each in declared.values()]
    assert len(set(variables)) == len(variables), variables
    return declared


def _arguments(argv: Sequence[str], problems: list[str]) -> tuple[str | None, dict[str, _Given]]:
    """The file that `--config` names, and what `--set` sets."""
    file: str | None = None
    overrides: dict[str, _Given] = {}
    rest = iter(argv)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if flag not in ("--config", "--set"):
            problems.append(f"argument {argument!r}: only --config FILE, --set NAME=VALUE and --help are known")
            continue
        value = value if equals else next(rest, "")
        key, equals, text = value.partition("=")
        if flag == "--config" and value:
            file = value
        elif flag == "--set" and key and equals:
            overrides[key.strip()] = _Given(text.strip(), "--set")
        else:
            problems.append(f"argument {flag} {value!r}: takes " + ("a file" if flag == "--config" else "NAME=VALUE"))
    return file, overrides


def _given(
    argv: Sequence[str], environ: Mapping[str, str], keys: Collection[str], problems: list[str]
) -> dict[str, _Given]:
    """All that is said: in the file of whatever there is, in the environment of `keys`, on the command line."""
    file, overrides = _arguments(argv, problems)
    file = file or environ.get(FILE_VARIABLE)
    from_file = _from_file(Path(file), problems) if file else {}
    return from_file | _from_environment(keys, environ) | overrides


def _from_file(file: Path, problems: list[str]) -> dict[str, _Given]:
    try:
        properties = parse_properties(file.read_text("utf-8"))
    except OSError as error:
        problems.append(f"--config {file}: cannot be read: {error.strerror}")
    except ValueError as error:
        problems.append(f"--config {file}: is not a properties file: {error}")
    else:
        return {key: _Given(value.strip(), str(file)) for key, value in properties.items()}
    return {}


def _from_environment(keys: Collection[str], environ: Mapping[str, str]) -> dict[str, _Given]:
    # Variables that name no setting are passed over: several services share an environment, and Kubernetes adds
    # QUORATE_…_SERVICE_HOST of its own to every pod beside a Service named quorate-….
    variables = {key: _variable(key) for key in keys}
    return {
        key: _Given(environ[variable].strip(), variable) for key, variable in variables.items() if variable in environ
    }


def _variable(key: str) -> str:
    return ENV_PREFIX + key.upper().replace(".", "_").replace("-", "_")


def _unknown(given: Mapping[str, _Given], known: Collection[str], allowed: Collection[str]) -> Iterator[str]:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"{key} ({given[key].source}): is not a setting of this service{hint}"


def _value(declared: _Setting, given: Mapping[str, _Given], problems: list[str]) -> object:
    if declared.key not in given:
        if declared.default is _REQUIRED:
            problems.append(f"{declared.key}: is missing; it must be {declared.kind.rule}")
        return declared.default
    value, source = given[declared.key].value, given[declared.key].source
    try:
        return declared.kind.parse(value)
    except ValueError:
        shown = "***" if declared.secret else repr(value)
        problems.append(f"{declared.key} = {shown} ({source}): must be {declared.kind.rule}")
        return None
