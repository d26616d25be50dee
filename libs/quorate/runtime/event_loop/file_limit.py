"""As many open files as the system allows a process, not as many as a login shell gets: a JVM does so at its start."""

from __future__ import annotations

import resource

__all__ = ["raise_file_limit"]


def raise_file_limit() -> None:
    """Raises the soft limit of descriptors to the hard one. A system that refuses it leaves it as it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names a hard limit that it does not allow
        return
