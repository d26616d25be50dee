"""The words for changes of the tables that say who may do what, and how much: ACLs, credentials, tokens, quotas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import nan
from typing import Final

from quorate.doubles import double_text
from quorate.metadata.acls import WILDCARD
from quorate.sql.nouns import Value
from quorate.sql.wording import AGAIN, DEFAULT, NOT_SET, Values, Wording, is_removed

__all__ = ["ACCESS_WORDINGS"]

WHOLE_MAX: Final = 1e15
"""A double that is a whole number below this is written as an integer."""


def _quota(of: Values) -> str:
    """Names the entity and the key; a part without a name is its type's default (KIP-546)."""
    parts = sorted(json.loads(str(of["entity"])), key=lambda each: each["entity_type"])
    named = (f"{each['entity_type']} {DEFAULT if (n := each['entity_name']) is None else n}" for each in parts)
    return f"quota of {', '.join(named)}: {of['key']}"


def _number(value: Value) -> str:
    if value is None:
        return double_text(nan)  # which a database has as null
    assert isinstance(value, int | float), value
    return str(int(value)) if value == value // 1 and abs(value) < WHOLE_MAX else double_text(float(value))


def _quota_changed(was: Values, now: Values) -> str:
    before, after = (_number(each["value"]) for each in (was, now))
    return f"is written again: {after}" if before == after else f"{before} → {after}"


def _acl(of: Values) -> str:
    """Names the resource: literal, `*` for all, or a prefix (KIP-290)."""
    kind, name = str(of["resource_type"]), of["resource_name"]
    kind = f"resource type {kind}" if kind.isdecimal() else kind.lower().replace("_", " ")
    if of["pattern_type"] == "PREFIXED":
        return f"ACL of {kind} prefix {name}"
    is_all = of["pattern_type"] == "LITERAL" and name == WILDCARD
    return f"ACL of every {kind}" if is_all else f"ACL of {kind} {name}"


def _rule(of: Values) -> str:
    operation = str(of["operation"])
    operation = f"operation {operation}" if operation.isdecimal() else operation
    may = "may" if of["permission_type"] == "ALLOW" else "may not"
    host = "any host" if of["host"] == WILDCARD else of["host"]
    return f"{of['principal']} {may} {operation} from {host}"


def _acl_changed(was: Values, now: Values) -> str:
    before, after = _rule(was), _rule(now)
    return f"is written again: {after}" if before == after else f"{before} → {after}"


def _credential(of: Values) -> str:
    mechanism = str(of["mechanism"])
    mechanism = f"mechanism {mechanism}" if mechanism.isdecimal() else mechanism
    return f"{mechanism} credential of user {of['name']}"


def _credential_changed(was: Values, now: Values) -> str:
    before, after = was.get("iterations"), now.get("iterations")
    if before != after:
        return f"is replaced: {before} iterations → {after} iterations"
    return "is replaced" + (f", with {after} iterations" if after is not None else "")


def _token(of: Values) -> str:
    return f"delegation token {of['token_id']}" + (f" of {of['owner']}" if "owner" in of else "")


def _until(of: Values) -> str:
    at_ms = of["expiration_timestamp"]
    assert isinstance(at_ms, int), at_ms
    try:
        return datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    except (ValueError, OverflowError, OSError):  # outside of the years 1 to 9999
        return f"{at_ms} ms since 1970"


def _token_changed(was: Values, now: Values) -> str:
    if "expiration_timestamp" not in now:
        return AGAIN
    before, after = _until(was), _until(now)
    return f"is written again, until {after}" if before == after else f"is renewed: until {before} → {after}"


ACCESS_WORDINGS: Final[Mapping[str, Wording]] = {
    "client_quotas": Wording(
        subject=_quota,
        first=lambda now: f"{NOT_SET} → {_number(now['value'])}",
        changed=_quota_changed,
        gone=lambda was: f"{_number(was['value'])} → {NOT_SET}",
    ),
    "acls": Wording(
        subject=_acl,
        first=lambda now: f"is added: {_rule(now)}",
        changed=_acl_changed,
        gone=lambda was: f"is removed: {_rule(was)}",
    ),
    "scram_users": Wording(
        subject=_credential,
        first=lambda now: f"is set, with {now['iterations']} iterations",
        changed=_credential_changed,
        gone=is_removed,
    ),
    "delegation_tokens": Wording(
        subject=_token,
        first=lambda now: f"is issued, until {_until(now)}",
        changed=_token_changed,
        gone=lambda was: f"is removed; it was good until {_until(was)}",
    ),
}
