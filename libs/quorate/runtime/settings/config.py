"""Loads a service's configuration from file, environment and command line into a frozen dataclass, and validates it.

A service declares its settings once:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Config:
        node_id: int = setting("node.id", integer(0), "This node's id, unique in the cluster.")
        fetch_timeout_ms: int = setting("controller.quorum.fetch.timeout.ms", milliseconds(1), "…", default=2000)

Later sources win: the default, `--config FILE` (or QUORATE_CONFIG), QUORATE_NODE_ID for `node.id`, `--set node.id=1`.

A service whose listeners may differ declares what each of them has in a class of its own (`of_each_listener`). A key of
that class is for every listener; with `listener.name.<name>.` before it, it is for one, and counts more (KIP-103).
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
from quorate.runtime.settings.setting_types import SettingType

__all__ = [
    "Checked",
    "ConfigError",
    "HelpAsked",
    "PerListener",
    "describe",
    "given_texts",
    "listener_prefix",
    "load",
    "of_each_listener",
    "setting",
    "settings_table",
]

ENV_PREFIX: Final = "QUORATE_"
FILE_VARIABLE: Final = ENV_PREFIX + "CONFIG"
OF_LISTENER: Final = "listener.name."
LISTENERS: Final = "listeners"
"""The field, and the setting, that has the listeners."""

T = TypeVar("T")
C = TypeVar("C")


class ConfigError(Exception):
    """Raised with all problems of a configuration, one sentence each, which names key, value and rule."""

    def __init__(self, problems: Sequence[str]) -> None:
        assert problems
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{count} in the configuration: " + "; ".join(problems))


class HelpAsked(Exception):
    """Raised if `--help` is among the arguments; its text is the table of settings."""


@runtime_checkable
class Checked(Protocol):
    """A configuration with rules between several settings, which `load` checks."""

    def problems(self) -> Iterator[str]:
        """Yields the violated rules, one sentence each, which names keys, values and the rule."""
        ...


class _Required:
    """The type of the marker for a setting without a default."""


_REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class _Setting:
    key: str
    kind: SettingType[Any]  # one table holds settings of every type
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


def setting(
    key: str, kind: SettingType[T], help: str, *, default: T | _Required = _REQUIRED, secret: bool = False
) -> T:
    """Declares a field of a configuration: its Kafka name, its type, its help text in one line, and its default.

    A setting without `default` is required. The value of a `secret` is never printed, and is not in the `repr`.
    """
    declared = _Setting(key, kind, help, default, secret)
    # `dataclasses.field` is typed the same way: its declared type is that of the field's value.
    made: T = dataclasses.field(metadata={"setting": declared}, repr=not secret, **_field_default(default))
    return made


class PerListener(dict[str, C]):
    """A dict of the settings of each listener, by its name, in the order of the setting that names them.

    `own` has the keys that were given for one listener alone, without its name, and are not the default.
    """

    def __init__(self, each: Mapping[str, C], own: Mapping[str, frozenset[str]]) -> None:
        super().__init__(each)
        self.own = own


def of_each_listener(cls: type[C], named_by: str = LISTENERS) -> PerListener[C]:
    """Declares a field with what each listener has: a `cls`. The field `named_by` has the listeners, or their names."""
    made: PerListener[C] = dataclasses.field(metadata={"of_each_listener": cls, "named_by": named_by})
    return made


def listener_prefix(name: str) -> str:
    """Returns what stands before a key that is for the listener of this name alone.

    >>> listener_prefix("CONTROLLER") + "ssl.client.auth"
    'listener.name.controller.ssl.client.auth'
    """
    return f"{OF_LISTENER}{name.lower()}."


def load(cls: type[C], argv: Sequence[str], environ: Mapping[str, str], *, others: Collection[str] = ()) -> C:
    """Returns the configuration by `argv` (without the program's name), `environ` and the file that either names.

    `others` are keys of other services that the file may contain; they are ignored. Raises ConfigError with every
    problem of single settings, or, if there is none, with every violated rule between settings; raises HelpAsked with
    the table of settings for `--help`.
    """
    declared, of_listeners = _declared(cls), _of_listeners(cls)
    if "--help" in argv or "-h" in argv:
        raise HelpAsked(settings_table(cls))
    problems: list[str] = []
    misfits: list[str] = []
    keys = {field: {each.key for each in _declared(kind).values()} for field, kind in of_listeners.items()}
    for_each = {key for each in keys.values() for key in each}
    known = {each.key for each in declared.values()} | for_each
    given = _given(argv, environ, known, problems)
    values: dict[str, Any] = {name: _value(each, each.key, given, misfits) for name, each in declared.items()}
    named = {field: _names(values.get(by) or ()) for field, by in _named_by(cls).items()}
    names = [name for each in named.values() for name in each]
    prefixed = {listener_prefix(name) + key for field in named for name in named[field] for key in keys[field]}
    if prefixed:
        given = _given(argv, environ, known | prefixed, [])
    for field, kind in of_listeners.items():
        each = {name: _of_listener(kind, listener_prefix(name), given, misfits) for name in named[field]}
        values[field] = PerListener(
            each, {name: _own(made, listener_prefix(name), given) for name, made in each.items()}
        )
    # Without a list of listeners nothing can be said of what is for one of them.
    unsaid = {key for key in given if key.startswith(OF_LISTENER)} if of_listeners and not names else set()
    problems += _unknown(given, known, known | set(others) | prefixed | unsaid, names)
    if names:
        problems += _unknown_variables(environ, prefixed, names)
    if problems or misfits:
        raise ConfigError(list(dict.fromkeys([*problems, *misfits])))
    config = cls(**values)
    if isinstance(config, Checked) and (unfit := list(config.problems())):
        raise ConfigError(unfit)
    return config


def given_texts(argv: Sequence[str], environ: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Returns the texts given for `keys`, declared or not, from the sources of `load`; those not given are left out.

    Call it after `load`, which reports all problems.
    """
    given = _given(argv, environ, keys, [])
    return {key: given[key].value for key in keys if key in given}


def describe(config: object) -> dict[str, str]:
    """Returns every setting in force as text, by Kafka's name; secrets as `***`. For the log at start.

    A setting that is not the same at all listeners has the listener's name before it.
    """
    told: dict[str, str] = {}
    listeners = [each for field in _of_listeners(type(config)) for each in getattr(config, field).items()]
    by_name = {name: describe(each) for name, each in listeners}
    for name, texts in by_name.items():
        for key, text in texts.items():
            is_common = {text} == {others[key] for others in by_name.values() if key in others}
            told[key if is_common else listener_prefix(name) + key] = text
    own = {
        each.key: "***" if each.secret else each.kind.write(getattr(config, name))
        for name, each in _declared(type(config)).items()
    }
    return told | own


def settings_table(cls: type) -> str:
    """Returns the help text: for each setting its name, default, unit, environment variable, meaning and rule."""
    lines = ["Settings: --config FILE (properties), --set NAME=VALUE, or the environment variable.", ""]
    own = {each.key: each for each in _declared(cls).values()}
    of_each = {each.key: each for kind in _of_listeners(cls).values() for each in _declared(kind).values()}
    for key, each in (own | {key: each for key, each in of_each.items() if key not in own}).items():
        default = f"{each.default_text} {each.kind.unit}".strip() if each.default_text != "required" else "required"
        lines.append(f"{key}  [{default or 'empty'}]  {each.variable}")
        of_one = f" With {OF_LISTENER}<name>. before it: of one listener." if key in of_each else ""
        lines += textwrap.wrap(
            f"{each.help} Must be {each.kind.rule}.{of_one}", 96, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)


def _field_default(default: object) -> dict[str, Any]:
    return {} if default is _REQUIRED else {"default": default}


def _declared(cls: type) -> dict[str, _Setting]:
    """Returns the declared settings of `cls` by field name."""
    declared: dict[str, _Setting] = {}
    for field in dataclasses.fields(cls):
        if "of_each_listener" in field.metadata:
            continue
        each = field.metadata.get("setting")
        assert isinstance(each, _Setting), f"{cls.__name__}.{field.name} is not declared with setting()"
        declared[field.name] = each
    variables = [each.variable for each in declared.values()]
    assert len(set(variables)) == len(variables), variables
    return declared


def _of_listeners(cls: type) -> dict[str, type]:
    """Returns the classes that are declared with of_each_listener(), by field name."""
    declared = {each.name: each.metadata.get("of_each_listener") for each in dataclasses.fields(cls)}
    return {name: kind for name, kind in declared.items() if kind is not None}


def _named_by(cls: type) -> dict[str, str]:
    """Returns the fields that have the listeners, by the fields that are declared with of_each_listener()."""
    declared = {each.name: each.metadata.get("named_by") for each in dataclasses.fields(cls)}
    return {name: by for name, by in declared.items() if by is not None}


def _names(listeners: Sequence[Any]) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in listeners]


def _arguments(argv: Sequence[str], problems: list[str]) -> tuple[str | None, dict[str, _Given]]:
    """Returns the file of `--config` and the values of `--set`; adds wrong arguments to `problems`."""
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
    """Returns all given values: every key of the file and of `--set`, and from the environment those of `keys`."""
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
    # Variables that name no setting are ignored: several services share an environment, and Kubernetes adds
    # QUORATE_…_SERVICE_HOST to every pod beside a Service named quorate-….
    variables = {key: _variable(key) for key in keys}
    return {
        key: _Given(environ[variable].strip(), variable) for key, variable in variables.items() if variable in environ
    }


def _variable(key: str) -> str:
    return ENV_PREFIX + key.upper().replace(".", "_").replace("-", "_")


def _unknown(
    given: Mapping[str, _Given], known: Collection[str], allowed: Collection[str], listeners: Sequence[str]
) -> Iterator[str]:
    names = {name.lower() for name in listeners}
    for key in given:
        if key in allowed:
            continue
        name, _, own = key.removeprefix(OF_LISTENER).partition(".")
        is_for_one = bool(names) and key.startswith(OF_LISTENER)
        if is_for_one and name not in names and name.lower() in names:
            small = listener_prefix(name) + own
            yield f"{key} ({given[key].source}): a listener's name is in small letters here: {small}"
            continue
        if is_for_one and name not in names:
            yield f"{key} ({given[key].source}): is for a listener {name}, and listeners has {', '.join(listeners)}"
            continue
        near = difflib.get_close_matches(key, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{key} ({given[key].source}): is not a setting of this service{hint}"


def _unknown_variables(
    environ: Mapping[str, str], prefixed: Collection[str], listeners: Sequence[str]
) -> Iterator[str]:
    """Yields each variable that is for one listener by its name, and for no setting of one that there is."""
    known = {_variable(key) for key in prefixed}
    for variable in sorted(environ):
        if variable.startswith(_variable(OF_LISTENER)) and variable not in known:
            yield f"{variable}: is for no setting of a listener; listeners has {', '.join(listeners)}"


def _of_listener(cls: type, prefix: str, given: Mapping[str, _Given], problems: list[str]) -> object:
    """Returns what a listener has; None and `problems` for settings that cannot be read."""
    count = len(problems)
    values = {
        name: _value(each, prefix + each.key if prefix + each.key in given else each.key, given, problems)
        for name, each in _declared(cls).items()
    }
    return cls(**values) if len(problems) == count else None


def _own(made: object, prefix: str, given: Mapping[str, _Given]) -> frozenset[str]:
    """Returns the keys given with `prefix` that say something else than the default; `made` is None for misfits."""
    declared = {} if made is None else _declared(type(made))
    asked = ((name, each) for name, each in declared.items() if prefix + each.key in given)
    return frozenset(each.key for name, each in asked if getattr(made, name) != each.default)


def _value(declared: _Setting, key: str, given: Mapping[str, _Given], problems: list[str]) -> object:
    if key not in given:
        if declared.default is not _REQUIRED:
            return declared.default
        problems.append(f"{declared.key}: is missing; it must be {declared.kind.rule}")
        return None
    value, source = given[key].value, given[key].source
    try:
        return declared.kind.parse(value)
    except ValueError:
        shown = "***" if declared.secret else repr(value)
        problems.append(f"{key} = {shown} ({source}): must be {declared.kind.rule}")
        return None
