"""Generates Python from the protobuf schema: `python protos/generate.py`, as `make protos` calls it.

For each file such as `kraft/api/vote.proto` it writes two kinds of modules to `libs/kraft/api`: `vote_pb2` and
`vote_pb2_grpc`, the gRPC messages with type stubs, made by protoc; and `vote`, the same messages as frozen structs.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2

PROTOS = Path(__file__).resolve().parent
LIBS = PROTOS.parent / "libs"
OUT = LIBS / "kraft"
WITH_STRUCTS = ("metadata", "control", "api", "protocol")

Comments = Mapping[tuple[str, str], str]
"""Leading comments by (file, dotted name of the message or enum inside it)."""


def main() -> None:
    """Deletes everything under libs/kraft and generates it again."""
    for old in OUT.iterdir():
        if old.name != "__init__.py":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("kraft/**/*.proto"))
    comments = protoc(sources)
    for package in {Path(source).parent for source in sources} - {Path("kraft")}:
        (LIBS / package / "__init__.py").write_text(f'"""Generated from protos/{package}."""\n')
    sys.path.insert(0, str(LIBS))
    (OUT / "errors.py").write_text(error_module(comments))
    for source in sources:
        if Path(source).parent.name in WITH_STRUCTS:
            (LIBS / source).with_suffix(".py").write_text(struct_module(source, comments))
    print(f"made Python from {len(sources)} protos")


def protoc(sources: list[str]) -> Comments:
    """Runs protoc with its plugins; returns the leading comments of messages, enums and their values."""
    described = OUT / "schema.binpb"
    services = [source for source in sources if Path(source).parent.name == "service"]
    bin_dir = Path(sys.executable).parent
    base = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}"]
    subprocess.run(
        [
            *base,
            f"--plugin=protoc-gen-mypy={bin_dir / 'protoc-gen-mypy'}",
            f"--python_out={LIBS}",
            f"--mypy_out=quiet:{LIBS}",
            "--include_source_info",
            f"--descriptor_set_out={described}",
            *sources,
        ],
        check=True,
    )
    if services:
        plugin = f"--plugin=protoc-gen-mypy_grpc={bin_dir / 'protoc-gen-mypy_grpc'}"
        subprocess.run(
            [*base, plugin, f"--grpc_python_out={LIBS}", f"--mypy_grpc_out=quiet,only_async:{LIBS}", *services],
            check=True,
        )
    files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    return {(file.name, name): text for file in files.file for name, text in leading_comments(file)}


def leading_comments(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Yields (dotted name, comment) for each message, enum and enum value of a file."""
    for location in file.source_code_info.location:
        path = list(location.path)
        if not location.leading_comments or len(path) % 2 or path[-2] not in (2, 3, 4, 5):
            continue
        names: list[str] = []
        at: Any = file
        for number, index in zip(path[::2], path[1::2], strict=True):
            fields = {field.number: field.name for field in at.DESCRIPTOR.fields}
            at = getattr(at, fields[number])[index]
            names.append(at.name)
        said = [line for line in location.leading_comments.splitlines() if "buf:lint" not in line]
        yield ".".join(names), " ".join(" ".join(said).split())


def error_module(comments: Comments) -> str:
    """Returns the source of `kraft.errors`: the error codes as an IntEnum, and the set of retriable ones."""
    errors = importlib.import_module("kraft.errors_pb2")
    values = sorted(errors.ErrorCode.DESCRIPTOR.values, key=lambda value: value.number)
    retriable = [value.name for value in values if value.GetOptions().Extensions[errors.retriable]]
    lines = ['"""Kafka\'s error codes, by its names and numbers. Generated."""', "", "from enum import IntEnum", "", ""]
    lines += ["class ErrorCode(IntEnum):", f'    """{comments["kraft/errors.proto", "ErrorCode"]}"""', ""]
    lines += [f"    {value.name} = {value.number}" for value in values]
    lines += ["", "", "RETRIABLE = frozenset(", "    {"]
    lines += [f"        ErrorCode.{name}," for name in retriable]
    lines += ["    }", ")", '"""Errors after which the same request may succeed, unchanged."""', ""]
    return "\n".join(lines)


def struct_module(source: str, comments: Comments) -> str:
    """Returns the source of the module of frozen structs for one proto file."""
    from quorate.wire.schema import layout

    pb2 = importlib.import_module(source.removesuffix(".proto").replace("/", ".") + "_pb2")
    lines = [f'"""Generated from protos/{source}."""', "", "from __future__ import annotations", ""]
    lines += ["from typing import ClassVar", "", "from kraft import Message, UnknownTags, Uuid"]
    for name in pb2.DESCRIPTOR.message_types_by_name:
        message = layout(getattr(pb2, name))
        lines += ["", "", *struct(message, nested_structs(message), source, comments, indent="")]
    return "\n".join(lines) + "\n"


def nested_structs(layout: Any) -> dict[str, Any]:
    """Returns every struct nested in a message by its dotted name, in the order of first use."""
    found: dict[str, Any] = {}
    for field in layout.fields:
        if field.struct:
            found |= {field.struct.name: field.struct, **nested_structs(field.struct)}
    return found


def struct(layout: Any, known: dict[str, Any], source: str, comments: Comments, *, indent: str) -> list[str]:
    """Returns the source lines of one class; the structs declared inside it come first."""
    inner = indent + "    "
    doc = comments.get((source, layout.name), layout.name).replace("\\", "\\\\")
    lines = [f"{indent}class {layout.name.rpartition('.')[2]}(Message, frozen=True, gc=False):", f'{inner}"""{doc}"""']
    for name, nested in known.items():
        if name.rpartition(".")[0] == layout.name:
            lines += ["", *struct(nested, known, source, comments, indent=inner)]
    lines += [""]
    lines += [f"{inner}{field.name}: {annotation(field)} = {default(field)}" for field in layout.fields]
    lines += [f"{inner}unknown_tags: UnknownTags = ()"]
    if secret := [field.name for field in layout.fields if field.secret]:
        lines += [f"{inner}secret_fields: ClassVar[frozenset[str]] = frozenset({secret!r})"]
    return lines


PYTHON_TYPES = {"bool": "bool", "float64": "float", "string": "str", "bytes": "bytes", "records": "bytes"}


def annotation(field: Any) -> str:
    """Returns a field's Python type annotation."""
    kind = field.kind.value
    one = field.struct.name if field.struct else "Uuid" if kind == "uuid" else PYTHON_TYPES.get(kind, "int")
    many = f"tuple[{one}, ...]" if field.array else one
    return many if field.nullable_since is None and field.default is not None else f"{many} | None"


def default(field: Any) -> str:
    """Returns a field's default value as Python source."""
    if field.default is ...:
        return f"{field.struct.name.rpartition('.')[2]}()"
    if field.kind.value == "uuid" and not field.array and field.default is not None:
        return "Uuid(bytes(16))"
    return repr(field.default)


if __name__ == "__main__":
    main()
