"""Writes of quotas, of users and of their tokens: `quotas`, `users`, `tokens`. No secret is an argument."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from quorate.cli.failures import Misused
from quorate.cli.write import Json, Write, pairs, split

__all__ = ["WRITES"]

ENTITIES: Final = ("user", "client-id", "ip")
ITERATIONS: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Those of `quorate.controller.access.scram_keys`, which is not imported for --help; a test compares them."""
SALT_BYTES: Final = 24
UNLIMITED: Final = -1
NUMBER: Final = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?")
"""Python also takes nan and 1_0, which are refused here: JSON has no such number, and no other tool reads it so."""


class Mechanism(StrEnum):
    """How a user logs in with a password (RFC 5802)."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


NUMBERS: Final = {Mechanism.SHA_256: 1, Mechanism.SHA_512: 2}

Entity = Annotated[
    list[str],
    typer.Option("--entity", metavar="TYPE/NAME", help=f"Of {', '.join(ENTITIES)}; user/ is the default of users."),
]
User = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Mechanisms = Annotated[Mechanism, typer.Option("--mechanism", help="Of which credential.")]
Hmac = Annotated[
    Path | None, typer.Option("--hmac-file", metavar="FILE", help="Has the token's HMAC, in base64; else it is asked.")
]
Period = Annotated[
    int, typer.Option("--period-ms", metavar="MS", min=-1, help="From now on; -1 for what the cluster has set.")
]


def set_quotas(
    entity: Entity,
    quotas: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="As producer_byte_rate=1048576.")],
) -> Json:
    """Returns an AlterClientQuotasRequest in JSON's values that sets quotas of an entity. Raises Misused."""
    asked = pairs("quota", quotas, like="KEY=VALUE, as in producer_byte_rate=1048576")
    return _altered(entity, [{"key": key, "value": _quota(key, value)} for key, value in asked.items()])


def delete_quotas(
    entity: Entity, keys: Annotated[list[str], typer.Argument(metavar="KEY", help="As producer_byte_rate.")]
) -> Json:
    """Returns an AlterClientQuotasRequest in JSON's values that removes quotas of an entity. Raises Misused."""
    return _altered(entity, [{"key": key, "remove": True} for key in keys])


def _altered(entity: Sequence[str], operations: Sequence[Json]) -> Json:
    parts = []
    for each in entity:
        kind, name = split("--entity", each, "/", like="TYPE/NAME, as in user/alice")
        if kind not in ENTITIES:
            raise Misused(f"--entity {each!r}: type {kind!r} is none of {', '.join(ENTITIES)}")
        parts.append({"entity_type": kind, **({"entity_name": name} if name else {})})
    return {"entries": [{"entity": parts, "ops": operations}]}


def _quota(key: str, text: str) -> float:
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    if math.isinf(number):
        raise Misused(f"quota {key}={text}: a quota is a number, as 1048576 or 1.5e6")
    return number


def _entities(asked: Json) -> Sequence[str]:
    return [
        ", ".join(f"{part['entity_type']}/{part.get('entity_name', '')}" for part in each["entity"])
        for each in asked["entries"]
    ]


def set_user(
    name: User,
    mechanism: Mechanisms = Mechanism.SHA_256,
    iterations: Annotated[
        int, typer.Option("--iterations", min=ITERATIONS, max=ITERATIONS_MAX, help="Of the hash.")
    ] = ITERATIONS,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="Has the password, and an end of line; else it is asked."),
    ] = None,
) -> Json:
    """Returns an AlterUserScramCredentialsRequest: the password is salted here, and never sent.

    Without a file the password is asked for at the terminal. Raises Misused, OSError.
    """
    import secrets
    from base64 import b64encode

    from quorate.controller.access.scram_keys import salted_password

    password = _secret("password", "--password-file", password_file, is_new=True)
    number, salt = NUMBERS[mechanism], secrets.token_bytes(SALT_BYTES)
    salted = salted_password(number, password.encode(), salt, iterations)
    made = {"iterations": iterations, "salt": b64encode(salt).decode(), "salted_password": b64encode(salted).decode()}
    return {"upsertions": [{"name": name, "mechanism": number, **made}]}


def delete_user(name: User, mechanism: Mechanisms = Mechanism.SHA_256) -> Json:
    """Returns an AlterUserScramCredentialsRequest that deletes a user's credential of one mechanism."""
    return {"deletions": [{"name": name, "mechanism": NUMBERS[mechanism]}]}


def create_token(
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="TYPE:NAME", help="Whose it is, as User:alice; else the caller's.")
    ] = None,
    renewers: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="TYPE:NAME", help="Who else may renew it.")
    ] = None,
    lifetime_ms: Annotated[
        int, typer.Option("--max-lifetime-ms", metavar="MS", min=-1, help="-1 for what the cluster has set.")
    ] = UNLIMITED,
) -> Json:
    """Returns a CreateDelegationTokenRequest in JSON's values; without `owner` it is the caller's. Raises Misused."""
    asked: Json = {"max_lifetime_ms": lifetime_ms, "renewers": []}
    if owner is not None:
        kind, name = split("--owner", owner, ":", like="TYPE:NAME, as in User:alice")
        asked |= {"owner_principal_type": kind, "owner_principal_name": name}
    for each in renewers or ():
        kind, name = split("--renewer", each, ":", like="TYPE:NAME, as in User:alice")
        asked["renewers"].append({"principal_type": kind, "principal_name": name})
    return asked


def renew_token(hmac_file: Hmac = None, period_ms: Period = UNLIMITED) -> Json:
    """Returns a RenewDelegationTokenRequest; without a file the HMAC is asked for at the terminal.

    Raises Misused, OSError.
    """
    return {"hmac": _hmac(hmac_file), "renew_period_ms": period_ms}


def expire_token(
    hmac_file: Hmac = None,
    period_ms: Annotated[
        int, typer.Option("--period-ms", metavar="MS", min=-1, help="From now on; -1 for at once.")
    ] = UNLIMITED,
) -> Json:
    """Returns an ExpireDelegationTokenRequest; -1 is at once. Without a file the HMAC is asked for at the terminal.

    Raises Misused, OSError.
    """
    return {"hmac": _hmac(hmac_file), "expiry_time_period_ms": period_ms}


def _hmac(file: Path | None) -> str:
    import base64
    import binascii

    text = _secret("HMAC", "--hmac-file", file, is_new=False)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Misused("--hmac-file: the HMAC is base64 (it is not shown)") from None
    return text


def _secret(what: str, option: str, file: Path | None, *, is_new: bool) -> str:
    """Returns what a file has, without the end of its line, or what is typed at a terminal. Raises Misused, OSError."""
    if file is not None:
        try:
            text = file.read_text("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise Misused(f"{option} {file}: it is no UTF-8 text") from None
    elif _is_terminal():
        text = typer.prompt(what, hide_input=True, confirmation_prompt=is_new, err=True)
    else:
        raise Misused(f"give {option}: standard input is no terminal at which the {what} could be asked")
    if not text:
        raise Misused(f"the {what} is empty")
    return text


def _is_terminal() -> bool:
    import sys

    return sys.stdin is not None and sys.stdin.isatty()


WRITES: Final = {
    ("quotas", "set"): Write("AlterClientQuotas", "Set client quotas.", "set", set_quotas, subjects=_entities),
    ("quotas", "delete"): Write(
        "AlterClientQuotas", "Delete client quotas.", "deleted", delete_quotas, subjects=_entities
    ),
    ("users", "set"): Write(
        "AlterUserScramCredentials",
        "Give a user a password (SCRAM); what is sent and stored is not the password.",
        "set",
        set_user,
        named_by=("user",),
        has_secret=True,
    ),
    ("users", "delete"): Write(
        "AlterUserScramCredentials", "Delete a credential of a user.", "deleted", delete_user, named_by=("user",)
    ),
    ("tokens", "create"): Write(
        "CreateDelegationToken",
        "Create a delegation token; its HMAC is its password, and is printed only now.",
        "created",
        create_token,
        named_by=("token_id",),
        shown=("hmac", "expiry_timestamp_ms", "max_timestamp_ms"),
    ),
    ("tokens", "renew"): Write(
        "RenewDelegationToken",
        "Renew a delegation token.",
        "renewed",
        renew_token,
        subjects=lambda _: ["token"],
        shown=("expiry_timestamp_ms",),
        has_secret=True,
    ),
    ("tokens", "expire"): Write(
        "ExpireDelegationToken",
        "Let a delegation token expire, at once or after a time.",
        "expires",
        expire_token,
        subjects=lambda _: ["token"],
        shown=("expiry_timestamp_ms",),
        has_secret=True,
    ),
}
