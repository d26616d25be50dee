"""Errors of the `quorate` command: each ends in one line on stderr, one document if asked for, an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TextIO

import typer

from quorate.cli.documents import asked_document, document_text
from quorate.cli.printable import printable
from quorate.errors import ApiError, Corrupt

__all__ = ["Failed", "Misused", "Passed", "Unreached", "error_document", "run"]

DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
UNREACHED: Final = 3
OUTPUT_FAULTS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)
"""Errors of a write; without the name of a file they are of stdout, as a write to a file names it."""
PIPE_CLOSED: Final = 141
"""The exit code that a shell reports for a program that SIGPIPE has ended: 128 + 13."""

Json = dict[str, Any]  # Any: JSON values


class Failed(Exception):
    """Raised when a command cannot be done; its message names the thing, the value and the rule. Exit code 1.

    `printed` is True if the command's documents have the error already.
    """

    code = FAILED

    def __init__(self, reason: str, *, printed: bool = False) -> None:
        super().__init__(reason)
        self.printed = printed


class Misused(Failed):
    """Raised for invalid options or arguments. Exit code 2."""

    code = MISUSED


class Passed(Failed):
    """Raised for an offset or a time of the log that a server does not have (any more, or yet). Exit code 1."""


class Unreached(Failed):
    """Raised if no server answers, or if the quorum has no leader: the same may succeed later. Exit code 3."""

    code = UNREACHED


def run(app: Callable[..., object], arguments: Sequence[str] | None = None) -> int:
    """Runs one command of `app`, prints its error if it fails, and returns its exit code.

    `app` is Typer's application, or the command of Click that Typer makes of it, anew for each call. Without
    `arguments` it runs the process's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed, as by `2>&-`
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # open as long as the process
    if sys.stdout is None:
        _print(sys.stderr, "quorate: standard output is closed; > /dev/null discards it")
        return FAILED
    _escape_what_cannot_be_said()
    try:
        return _run(app, given)
    except BrokenPipeError:
        # The reader of the pipe has closed it (`| head`): what a Unix tool ends by without a word.
        _discard(sys.stdout, sys.stderr)
        return PIPE_CLOSED
    except OSError as problem:
        _discard(sys.stdout)
        _print(sys.stderr, f"quorate: standard output: {problem.strerror or problem}")
        return FAILED


def _run(app: Callable[..., object], given: list[str]) -> int:
    """Runs one command and prints its error if it fails. Raises OSError if stdout or stderr cannot be written."""
    try:
        if any("\0" in each for each in given):
            raise Misused("an argument has a NUL in it, which no name of a file has")
        code = app(given, prog_name="quorate", standalone_mode=False)
    except SystemExit as end:  # typer's own handling of a closed pipe
        raise end.__context__ or end from None
    except BrokenPipeError:
        raise
    except typer.TyperException as misuse:
        if getattr(misuse, "message", "").startswith("Usage:"):  # a noun without a verb: its help, as it is laid out
            print(getattr(misuse, "message", ""), file=sys.stderr, flush=True)
            return MISUSED
        return _end(Misused(_words_of(misuse)), given)
    except typer.Abort:
        return FAILED
    except (Failed, Corrupt, ApiError, OSError) as problem:
        if isinstance(problem, OSError) and problem.filename is None and problem.errno in OUTPUT_FAULTS:
            raise
        return _end(problem, given)
    sys.stdout.flush()
    return code if isinstance(code, int) else DONE


def _discard(*streams: TextIO) -> None:
    """Lets what these streams still have to write go nowhere; else Python reports the fault again at exit."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_what_cannot_be_said() -> None:
    """Makes stdout and stderr write characters as \\u escapes that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def error_document(problem: Exception) -> Json:
    """Returns `{"error": …}` as JSON values: message and exit code; for Corrupt also file and position."""
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
    asked = asked_document(arguments)
    if asked is not None and not (isinstance(problem, Failed) and problem.printed):
        _print(sys.stdout, document_text(document, asked))
    _print(sys.stderr, f"quorate: {printable(' '.join(document['error']['message'].split()))}")
    code: int = document["error"]["exitCode"]
    return code


def _print(stream: TextIO, line: str) -> None:
    print(line, file=stream, flush=True)


def _words_of(misuse: Exception) -> str:
    words = getattr(misuse, "format_message", lambda: str(misuse))()
    return f"{words.rstrip('.')}; see --help"


def _words_of_system(problem: OSError) -> str:
    name = f"{problem.filename}: " if problem.filename else ""
    return f"{name}{problem.strerror or problem}"
