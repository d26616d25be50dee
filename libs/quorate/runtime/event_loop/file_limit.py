"""As many open files as the system allows a process, not as many as a login shell gets: a JVM does so at its start."""

from __future__ import annotations

import resource

__all__ = ["raise_file_limit"]


def raise_file_limit() -> None:
    """Raises this process's soft limit of open files to the hard one. Does nothing if the system refuses it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names a hard limit that it does not allow
        return
