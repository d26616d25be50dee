"""A file system that forgets: what was not synced, file or directory, may be gone after a power cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass
class Content:
    """Bytes of one file: what a reader sees, and what is known to be on the platter."""

    data: bytes
    synced: bytes | None = None


@dataclass
class Files:
    """One directory. A rename or removal is an entry of the directory, durable once that is synced."""

    seen: dict[str, Content] = field(default_factory=dict)
    durable: dict[str, Content] = field(default_factory=dict)
    pending: list[tuple[str, Content | None]] = field(default_factory=list)
    """Entries not synced yet, oldest first: a name, and its content or None for a removal."""

    def write(self, name: str, data: bytes) -> None:
        """A new file in the place of any other."""
        self._link(name, Content(data))

    def extend(self, name: str, data: bytes) -> None:
        """More bytes at the end."""
        self.seen[name].data += data

    def sync(self, name: str) -> None:
        """fsync of the file; its name may still be lost."""
        content = self.seen[name]
        content.synced = content.data

    def rename(self, before: str, after: str) -> None:
        """One entry for another."""
        content = self.seen[before]
        self._link(after, content)
        self.remove(before)

    def remove(self, name: str) -> None:
        """No such entry any more; nothing if there was none."""
        if self.seen.pop(name, None) is not None:
            self.pending.append((name, None))

    def sync_directory(self) -> None:
        """fsync of the directory: every entry is durable."""
        self.durable = dict(self.seen)
        self.pending.clear()

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""
        content = self.seen.get(name)
        return None if content is None else content.data

    def keep_all(self) -> None:
        """The power goes, and by good luck all had been written."""
        self.sync_directory()
        for content in self.seen.values():
            content.synced = content.data

    def power_cut(self, random: Random) -> bool:
        """Some of the newest entries and unsynced bytes are lost. True if anything was."""
        kept = random.randrange(len(self.pending) + 1)
        is_lossy = kept < len(self.pending)
        for name, content in self.pending[:kept]:
            if content is None:
                self.durable.pop(name, None)
            else:
                self.durable[name] = content
        self.pending.clear()
        self.seen = dict(self.durable)
        for content in self.seen.values():
            if content.synced != content.data:
                is_lossy = True
                synced = content.synced or b""
                cut = random.randrange(len(content.data) + 1)
                zeros = b"\0" * len(content.data)  # the size was kept, the bytes were not
                content.data = random.choice([synced, content.data[:cut], zeros])
            content.synced = content.data
        return is_lossy

    def _link(self, name: str, content: Content) -> None:
        self.seen[name] = content
        self.pending.append((name, content))
