"""A PostgreSQL server of a test's own: in a directory, on a free port, ended with the block."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.local.ports import free_ports

PASSWORD: Final = "not to be told"
DEBIAN: Final = Path("/usr/lib/postgresql")
"""Debian and Ubuntu put the servers' programs here by version, and not on PATH."""
TIMEOUT_S: Final = 120
START_S: Final = TIMEOUT_S - 10
"""How long pg_ctl waits for the server; by itself 60 s, which a busy machine may need."""
NOBODY: Final = "nobody"
"""A server refuses to run as root."""
MISSING: Final = (
    "{what}: no PostgreSQL can hold spans here, so this test is SKIPPED and shows nothing. It needs a server "
    "(Debian, Ubuntu: `apt-get install postgresql`) and SQLAlchemy's driver for it (`pip install 'psycopg[binary]'`)."
)


def absent() -> str | None:
    """Why there can be no server here, or None when there can."""
    if importlib.util.find_spec("psycopg") is None:
        return MISSING.format(what="psycopg is not installed")
    if _program("initdb") is None:
        return MISSING.format(what="initdb is not to be found")
    return None


@contextmanager
def postgres(directory: Path) -> Iterator[str]:
    """The URL of an empty database, with a password in it, until the block ends."""
    (port,) = free_ports(1)
    data, secret = directory / "data", directory / "password"
    secret.write_text(PASSWORD + "\n")
    user = _user()
    if user is not None:
        owner = pwd.getpwnam(user)
        for each in (directory, secret):
            os.chown(each, owner.pw_uid, owner.pw_gid)
    _run("initdb", "-D", str(data), "-U", "observer", "-A", "scram-sha-256", "--pwfile", str(secret), "-N", user=user)
    settings = f"-h 127.0.0.1 -p {port} -k {directory} -c fsync=off"
    log = directory / "log"
    start = ("-D", str(data), "-w", "-t", str(START_S), "-l", str(log), "-o", settings, "start")
    _run("pg_ctl", *start, user=user, log=log)
    try:
        yield f"postgresql+psycopg://observer:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"
    finally:
        _run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop", user=user)


def _program(name: str) -> str | None:
    versions = sorted(DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return next((found for place in (None, *versions) if (found := shutil.which(name, path=place))), None)


def _user() -> str | None:
    """Whose process it is to be; None for ours."""
    return NOBODY if os.geteuid() == 0 else None


def _run(program: str, *arguments: str, user: str | None, log: Path | None = None) -> None:
    found = _program(program)
    assert found is not None, program
    # Nothing that stays behind holds our pipes open: a server does.
    done = subprocess.run(
        [found, *arguments],
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    told = log.read_text() if log is not None and log.exists() else ""
    assert 0 == done.returncode, (program, arguments, done.returncode, told)
