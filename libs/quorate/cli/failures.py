"""How a command ends that could not do what was asked: one line on stderr, one JSON document, one exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

import typer

from quorate.errors import ApiError, Corrupt

__all__ = ["Failed", "Misused", "error_document", "run"]

DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2

Json = dict[str, Any]  # Any: JSON values


class Failed(Exception):
    """What was asked cannot be done; the sentence names thing, value and rule. Nothing was changed.

    `printed` says that the JSON document has the error already.
    """

    code = FAILED

    def __init__(self, reason: str, *, printed: bool = False) -> None:
        super().__init__(reason)
        self.printed = printed


class Misused(Failed):
    """The command line itself cannot be meant."""

    code = MISUSED


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and answer with its exit code."""
    from quorate.cli.app import app

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(given, prog_name="quorate", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough (`| head`). Without this Python complains once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except typer.TyperException as misuse:
        return _end(Misused(_words_of(misuse)), given)
    except typer.Abort:
        return FAILED
    except (Failed, Corrupt, ApiError, OSError) as problem:
        return _end(problem, given)
    return code if isinstance(code, int) else DONE


def error_document(problem: Exception) -> Json:
    """An error as programs get it: what is wrong and, for damage, where."""
    document: Json = {"message": str(problem), "exitCode": getattr(problem, "code", FAILED)}
    if isinstance(problem, OSError):
        document["message"] = _words_of_system(problem)
    if isinstance(problem, Corrupt):
        document["file"] = str(problem.path) if problem.path else None
        document["position"] = problem.position
        document["reason"] = problem.reason
    if isinstance(problem, ApiError):
        document["code"] = problem.code.name
    document["exitCode"] = problem.code if isinstance(problem, Failed) else FAILED
    return {"error": document}


def _end(problem: Exception, arguments: Sequence[str]) -> int:
    document = error_document(problem)
    if "--json" in arguments and not (isinstance(problem, Failed) and problem.printed):
        _print(sys.stdout, json.dumps(document))
    _print(sys.stderr, f"quorate: {' '.join(document['error']['message'].split())}")
    code: int = document["error"]["exitCode"]
    return code


def _print(stream: TextIO, line: str) -> None:
    print(line, file=stream, flush=True)


def _words_of(misuse: Exception) -> str:
    told = getattr(misuse, "format_message", lambda: str(misuse))()
    return f"{told.rstrip('.')}; see --help"


def _words_of_system(problem: OSError) -> str:
    name = f"{problem.filename}: " if problem.filename else ""
    return f"{name}{problem.strerror or problem}"
