"""`--add-scram`: makes a SCRAM credential from a password (RFC 5802, KIP-900). No error or output has the password."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Final

from quorate.cli.failures import Misused
from quorate.controller.access.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, salted_password, verifier_keys
from quorate.metadata.scram import MECHANISMS
from quorate.records import UserScramCredentialRecord

__all__ = ["parse_scram"]

SALT_BYTES: Final = 24

_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
_SETTING: Final = re.compile(r'\s*+([A-Za-z]+)\s*+=\s*+(?:("[^"]*+")\s*+|([^",]*+))(?:,|$)')
_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")


def parse_scram(text: str) -> UserScramCredentialRecord:
    """Returns the credential of 'SCRAM-SHA-256=[name=alice,password=…]'. Raises Misused, never with the password.

    The salt is random unless it is given.
    """
    mechanism, equals, rest = text.partition("=")
    rest = rest.strip()
    if not equals or rest[:1] != "[" or rest[-1:] != "]":
        raise Misused("--add-scram takes 'MECHANISM=[name=…,password=…]'; this one has no such form (it is not shown)")
    if mechanism not in _NUMBERS:
        raise Misused(f"--add-scram: mechanism {mechanism!r} is not known; known are {' and '.join(_NUMBERS)}")
    settings = _settings(rest[1:-1])
    name = settings.get("name", "")
    if not name:
        raise Misused("--add-scram: name is missing; a credential belongs to a user")
    return UserScramCredentialRecord(
        name=name,
        mechanism=_NUMBERS[mechanism],
        **_keys(name, _NUMBERS[mechanism], settings),  # type: ignore[arg-type]  # salt, keys and iterations, each of its type
    )


def _keys(user: str, mechanism: int, settings: dict[str, str]) -> dict[str, bytes | int]:
    iterations = _iterations(user, settings.get("iterations", str(ITERATIONS_MIN)))
    salt = _base64(user, "salt", settings["salt"]) if settings.get("salt") else secrets.token_bytes(SALT_BYTES)
    password, salted = settings.get("password"), settings.get("saltedpassword")
    if bool(password) == bool(salted):
        raise Misused(f"--add-scram: user {user!r} takes one of password and saltedpassword")
    if password:
        made = salted_password(mechanism, password.encode("utf-8"), salt, iterations)
    else:
        if "salt" not in settings:
            raise Misused(f"--add-scram: user {user!r} has a saltedpassword and no salt; both are needed")
        made = _base64(user, "saltedpassword", salted or "")
    stored, server = verifier_keys(mechanism, made)
    return {"salt": salt, "stored_key": stored, "server_key": server, "iterations": iterations}


def _settings(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _SETTING.match(text, at)
        if match is None:
            raise Misused(
                '--add-scram: between [ and ] stands name=…,password=… with , between them; "…" keeps a , whole'
            )
        key, value = match[1].lower(), (match[2] or match[3]).strip('"')
        if key not in _KEYS:
            raise Misused(f"--add-scram: {key!r} is not known; known are {', '.join(_KEYS)}")
        if key in found:
            raise Misused(f"--add-scram: {key} is given twice")
        found[key] = value
        at = match.end()
    return found


def _iterations(user: str, text: str) -> int:
    if (
        not (text.isascii() and text.isdecimal() and len(text) <= 9)
        or not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX
    ):
        raise Misused(
            f"--add-scram: user {user!r} has iterations {text!r}; they are from {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    return int(text)


def _base64(user: str, key: str, text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        raise Misused(f"--add-scram: {key} of user {user!r} is not base64 (it is not shown)")
    return raw
