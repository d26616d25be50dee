"""`quorate features plan`: what stands against feature levels, and what clears it, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kraft import Message
from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed, Misused
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.cli.record_json import message_json
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.secrets import redacted
from quorate.doubles import dumps
from quorate.errors import ApiError
from quorate.metadata.features import FEATURES, KRAFT_VERSION, supported_features
from quorate.metadata.versions import LATEST, METADATA_VERSION, RELEASES, level_of, record_version, release_of
from quorate.what_if.feature_levels import Blocked, LevelPlan, levels_of, plan_levels

__all__ = ["NO_QUORUM", "NO_VOTERS", "plan"]

NO_VOTERS: Final = "the log has no voters (kraft.version 0): controllers that never registered are not known"
NO_QUORUM: Final = "an observer tells neither the voters nor kraft.version"
LEVEL_MAX: Final = 32_767
"""The highest level that a request can have (int16)."""


def plan(found: Offline, *, features: Sequence[str], release: str | None, output: str) -> bool:
    """Prints what stands against feature levels in this state; returns whether nothing does. Writes nothing.

    The levels are those of `features` (NAME=LEVEL), or of a release, or the latest that are known. Raises Misused for
    what is no feature or level; Failed for levels that cannot be planned.
    """
    if features and release is not None:
        raise Misused("--feature and --release: give one of them")
    present = found.state.features.finalized()
    wanted = dict(map(_read, features)) if features else levels_of(_level(release), present=present)
    if KRAFT_VERSION in wanted and not found.has_quorum:
        raise Misused(f"--feature {KRAFT_VERSION}={wanted[KRAFT_VERSION]}: {NO_QUORUM}; ask a log, or a controller")
    voters = [each.voter_id for each in found.voters.voters] if found.voters is not None else []
    try:
        plans, records = plan_levels(
            found.state, wanted, kraft_version=found.kraft_version, voters=voters, settings=ControllerSettings()
        )
    except ApiError as refusal:
        raise Failed(f"{found.path}: {refusal.message}") from None
    notes = [*found.notes, *_unknown(found)]
    if not features:
        stay = [each for each in present if each in FEATURES and each not in wanted]
        notes += [f"{each} stays at {present[each]}: an upgrade lowers no feature" for each in stay]
    if is_document(output):
        print_document(_json(found, plans, records, notes), output)
    else:
        print_lines(_text(found, plans, records, notes))
    return not any(each.blocked for each in plans)


def _unknown(found: Offline) -> Sequence[str]:
    """Says whether there may be controllers that are not known."""
    if not found.has_quorum:
        return (f"{NO_QUORUM}: controllers that never registered are not known",)
    return () if found.voters is not None and found.voters.voters else (NO_VOTERS,)


def _read(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if name not in supported_features():
        raise Misused(f"--feature {text!r}: known are {', '.join(sorted(supported_features()))}")
    if name == METADATA_VERSION and not level.isdecimal():
        return name, _level(level)
    if not (level.isascii() and level.isdecimal() and int(level) <= LEVEL_MAX):
        raise Misused(f"--feature {text!r}: NAME=LEVEL, a level is a number from 0 to {LEVEL_MAX}")
    return name, int(level)


def _level(release: str | None) -> int:
    try:
        return LATEST if release is None else level_of(release)
    except ValueError as problem:
        raise Misused(f"--release: {problem}") from None


def _text(
    found: Offline, plans: Sequence[LevelPlan], records: Sequence[Message], notes: Sequence[str]
) -> Iterator[str]:
    yield f"As of offset {found.as_of_offset}:"
    if not plans:
        yield "  all features are at these levels already"
    for each in plans:
        verdict = f"blocked by {len(each.blocked)}" if each.blocked else each.command
        yield f"  {each.feature} {_named(each, each.present)} → {_named(each, each.wanted)}: {verdict}"
        for obstacle in each.blocked:
            yield f"    {obstacle.why}"
            yield f"      {obstacle.clear}"
    if records:
        yield "would write:"
        for record in records:
            yield f"  {printable(dumps(_record(found, record)))}"
    for note in notes:
        yield f"note: {printable(note)}"


def _named(plan: LevelPlan, level: int) -> str:
    is_release = plan.feature == METADATA_VERSION and level in RELEASES
    return f"{level} ({release_of(level)})" if is_release else str(level)


def _json(
    found: Offline, plans: Sequence[LevelPlan], records: Sequence[Message], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "asOfOffset": found.as_of_offset,
        "features": [
            {
                "feature": each.feature,
                "present": each.present,
                "wanted": each.wanted,
                "blocked": list(map(_document, each.blocked)),
                "command": each.command,
            }
            for each in plans
        ],
        "records": [_record(found, each) for each in records],
        "notes": list(notes),
    }


def _record(found: Offline, record: Message) -> dict[str, Any]:  # Any: JSON values
    return message_json(redacted(record), record_version(record, found.state.features.record_level))


def _document(blocked: Blocked) -> dict[str, Any]:
    return {
        "kind": blocked.kind.name,
        "why": blocked.why,
        "node": blocked.node or None,
        "supported": None if blocked.supported is None else list(blocked.supported),
        "clear": blocked.clear,
    }
