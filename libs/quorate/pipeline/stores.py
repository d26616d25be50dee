"""The stores that a URL may name: what is in them, and the bytes of a range.

`s3` and `s3a`, `gs`, `abfs` and `abfss` are read by PyArrow's file systems. `hdfs` is read by the package hdfs-native,
or by PyArrow with Hadoop's native client, libhdfs, which runs a JVM in this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from hdfs_native import Client
    from pyarrow.fs import FileInfo, FileSystem

__all__ = ["ArrowStore", "Entry", "HdfsStore", "S3Access", "Store", "store_of"]

_S3: Final = ("s3", "s3a", "s3n")
_HDFS: Final = "hdfs"
_LIBHDFS: Final = "ARROW_LIBHDFS_DIR"
"""Where PyArrow looks for libhdfs.so. If it is set, libhdfs is used, also where hdfs-native is installed."""
_LINE_END: Final = re.compile(r"\n|\\n")
"""The end of a line in an error of hdfs-native, which may be escaped; a stack trace of the NameNode follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """How an S3 server is reached; what is None comes from the environment, as for any client of AWS."""

    endpoint: str | None = None
    """`host:port`, or a URL; None for Amazon's own."""
    region: str | None = None
    is_encrypted: bool = True
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


class Entry(NamedTuple):
    """A file or directory; `size` is in bytes, `modified_ms` in ms since 1970, 0 if the store does not tell."""

    path: str
    is_file: bool
    size: int
    modified_ms: int


class Store(Protocol):
    """A file system, with paths as it has them itself: without the scheme, and for HDFS from the root on."""

    def entry(self, path: str) -> Entry | None:
        """Returns what is at a path; None if nothing is. Raises OSError."""

    def children(self, directory: str) -> Sequence[Entry]:
        """Lists what is directly in a directory; nothing if it is a file, or not there. Raises OSError."""

    def descendants(self, directory: str) -> Sequence[Entry]:
        """Lists what is in a directory and in all below it. Raises OSError."""

    def read(self, path: str, start: int, end: int) -> bytes:
        """Returns the bytes of a file from `start` to `end` (exclusive), which it must have. Raises OSError."""


@dataclass(frozen=True, slots=True)
class ArrowStore:
    """A store by one of PyArrow's file systems."""

    system: FileSystem

    def entry(self, path: str) -> Entry | None:
        """Returns what is at a path; None if nothing is. Raises OSError."""
        found = self.system.get_file_info(path)
        return None if found.type.name == "NotFound" else _arrow_entry(found)

    def children(self, directory: str) -> Sequence[Entry]:
        """Lists what is directly in a directory; nothing if it is a file, or not there. Raises OSError."""
        from pyarrow.fs import FileSelector

        found = self.entry(directory)
        if found is not None and found.is_file:
            return ()
        return _arrow_entries(self.system.get_file_info(FileSelector(directory, allow_not_found=True)))

    def descendants(self, directory: str) -> Sequence[Entry]:
        """Lists what is in a directory and in all below it. Raises OSError."""
        from pyarrow.fs import FileSelector

        return _arrow_entries(self.system.get_file_info(FileSelector(directory, recursive=True)))

    def read(self, path: str, start: int, end: int) -> bytes:
        """Returns the bytes of a file from `start` to `end` (exclusive), which it must have. Raises OSError."""
        with self.system.open_input_file(path) as file:
            return bytes(file.read_at(end - start, start))


@dataclass(frozen=True, slots=True)
class HdfsStore:
    """An HDFS by the package hdfs-native; `name` is the URL of its root, for errors."""

    client: Client
    name: str

    def entry(self, path: str) -> Entry | None:
        """Returns what is at a path; None if nothing is. Raises OSError."""
        try:
            with self._errors_of(path):
                found = self.client.get_file_info(path)
        except FileNotFoundError:
            return None
        return Entry(path, not found.isdir, int(found.length), int(found.modification_time))

    def children(self, directory: str) -> Sequence[Entry]:
        """Lists what is directly in a directory; nothing if it is a file, or not there. Raises OSError."""
        try:
            return self._listed(directory, is_recursive=False)
        except FileNotFoundError:
            return ()

    def descendants(self, directory: str) -> Sequence[Entry]:
        """Lists what is in a directory and in all below it. Raises OSError."""
        return self._listed(directory, is_recursive=True)

    def read(self, path: str, start: int, end: int) -> bytes:
        """Returns the bytes of a file from `start` to `end` (exclusive), which it must have. Raises OSError."""
        with self._errors_of(path):
            reader = self.client.read(path)
            if end > len(reader):  # the client would panic, which is no Exception
                raise OSError(
                    f"the bytes from {start} to {end} were to be read, and hdfs-native has {len(reader)}: the file is "
                    "open for writing, when only libhdfs reads its last block, or it was cut"
                )
            return bytes(reader.read_range(start, end - start))

    def _listed(self, directory: str, *, is_recursive: bool) -> Sequence[Entry]:
        with self._errors_of(directory):
            found = list(self.client.list_status(directory, is_recursive))
        # A file's list is the file itself.
        return [
            Entry(each.path, not each.isdir, int(each.length), int(each.modification_time))
            for each in found
            if each.path != directory
        ]

    @contextmanager
    def _errors_of(self, path: str) -> Iterator[None]:
        """Makes one line, with the URL, of what the client says; a NameNode's answers are RuntimeErrors there."""
        try:
            yield
        except (OSError, RuntimeError) as problem:
            said = f"{self.name}{path}: {_LINE_END.split(str(problem))[0]}"
            if isinstance(problem, FileNotFoundError):
                raise FileNotFoundError(said) from None
            raise (PermissionError if "AccessControlException" in said else OSError)(said) from None


def store_of(scheme: str, rest: str, access: S3Access) -> tuple[Store, str]:
    """Returns the store of the URL `scheme://rest`, and its path there. Raises ValueError, OSError.

    Paths of s3 and hdfs may have any characters, wildcards among them; of other schemes those that a URI allows.
    """
    if scheme in _S3:
        return _s3(access), rest
    if scheme == _HDFS:
        authority, _, path = rest.partition("/")
        return _hdfs(authority), f"/{path}"
    from pyarrow.fs import FileSystem

    system, path = FileSystem.from_uri(f"{scheme}://{rest}")
    return ArrowStore(system), path


@cache
def _s3(access: S3Access) -> ArrowStore:
    from pyarrow.fs import S3FileSystem

    given = {
        "endpoint_override": access.endpoint,
        "region": access.region,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "session_token": access.session_token,
    }
    scheme = "https" if access.is_encrypted else "http"
    return ArrowStore(
        S3FileSystem(scheme=scheme, **{name: value for name, value in given.items() if value is not None})
    )


@cache
def _hdfs(authority: str) -> Store:
    name = f"{_HDFS}://{authority}"
    if not authority or "@" in authority:
        raise ValueError(
            f"{name}/…: a URL of HDFS has a NameNode's host:port, or a name service, and no user, "
            "which is the one that HADOOP_USER_NAME says"
        )
    if _LIBHDFS not in os.environ:
        try:
            from hdfs_native import Client
        except ImportError:
            pass
        else:
            return _native(Client, name)
    return _libhdfs(authority, name)


def _native(client: type[Client], name: str) -> HdfsStore:
    try:
        return HdfsStore(client(name), name)
    except RuntimeError as problem:
        raise ValueError(
            f"{name} has no port (a NameNode's is usually 8020), and is no name service of hdfs-site.xml in "
            f"HADOOP_CONF_DIR: {problem}"
        ) from None


def _libhdfs(authority: str, name: str) -> ArrowStore:
    from pyarrow.fs import HadoopFileSystem

    host, _, port = authority.partition(":")
    try:
        return ArrowStore(HadoopFileSystem(host, int(port or 0)))
    except OSError as problem:
        raise OSError(
            f"{name}: there is no client for HDFS. Either install the package hdfs-native (the extra hdfs of "
            f"pyspark-kraft) on the driver and each worker; or set there {_LIBHDFS} (the directory of Hadoop's "
            "libhdfs.so), JAVA_HOME (of a JDK), and CLASSPATH (Hadoop's jars, one by one: `hadoop classpath --glob`). "
            f"PyArrow says: {str(problem).splitlines()[0]}"
        ) from None


def _arrow_entries(found: Sequence[FileInfo]) -> Sequence[Entry]:
    return [_arrow_entry(each) for each in found]


def _arrow_entry(found: FileInfo) -> Entry:
    return Entry(found.path, found.is_file, int(found.size or 0), (found.mtime_ns or 0) // 1_000_000)
