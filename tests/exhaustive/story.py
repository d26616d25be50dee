"""An event of the model as a line to be read."""

from __future__ import annotations

from typing import cast

import msgspec

from quorate.nouns import ReplicaKey
from quorate.raft import BatchInfo, VoterSet
from tests.exhaustive.frozen import FIRST_ID, is_id, thaw
from tests.exhaustive.steps import Action

UNTOLD = frozenset({"reply_to", "cluster_id", "max_bytes", "max_wait_ms", "log_start_offset", "size", "voter"})


def name(id: int) -> str:
    """Nodes are A, B, C ... as they stood at the beginning."""
    return chr(ord("A") + id - FIRST_ID)


def line(event: tuple[int, Action, object]) -> str:
    """What happens, and where."""
    id, action, _ = event
    at = name(id)
    match action:
        case ("twice", *rest):
            return f"{line((id, tuple(rest), None))} (a copy stays on the wire)"
        case ("take", int(sender), bool(is_waited_for), value):
            late = "" if is_waited_for else " (given up by now)"
            return f"{at} takes from {name(sender)}{late}: {_told(thaw(value))}"
        case ("timer", str(timer)):
            return f"{at} has waited long enough ({timer})"
        case ("late", int(peer), bool(_)):
            return f"{at} gives up its request to {name(peer)}"
        case ("held", key):
            return f"{at} answers the held fetch of {name(cast(ReplicaKey, thaw(key)).id)}"
        case ("crash", int(end)):
            return f"{at} crashes and starts again; its log ends at {end}"
        case (str(verb), int(other)):
            return f"{at} is asked to {verb} {name(other)}"
        case (str(verb),):
            return f"{at}: {verb}"
    return f"{at}: {action}"


def _told(message: object) -> str:
    told = [
        f"{field.name}={_short(getattr(message, field.name))}"
        for field in msgspec.structs.fields(message)  # type: ignore[arg-type]
        if field.name not in UNTOLD and getattr(message, field.name) not in (None, False, ())
    ]
    return f"{type(message).__name__}({', '.join(told)})"


def _short(thing: object) -> str:
    match thing:
        case bool():
            return str(thing)
        case int() if is_id(thing):
            return name(thing)
        case ReplicaKey(id=id):
            return name(id)
        case BatchInfo(epoch=epoch, data=data):
            return f"{epoch}:{_short(data)}"
        case VoterSet():
            return "".join(name(id) for id in sorted(thing.ids))
        case tuple():
            return "[" + " ".join(_short(item) for item in thing) + "]"
        case str():
            return thing
    return getattr(thing, "name", None) or str(thing)
