"""One process at a time, be it ours or a JVM."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.storage.lock import DirectoryLock, Locked

JAVA = """
import java.nio.channels.*; import java.nio.file.*;
class Lock {
  public static void main(String[] args) throws Exception {
    FileChannel file = FileChannel.open(Path.of(args[0]), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    System.out.println(file.tryLock() == null ? "locked" : "free");
    System.in.read();
  }
}
"""
OURS = """
import sys
from pathlib import Path
from quorate.storage.lock import DirectoryLock, Locked
try:
    DirectoryLock(Path(sys.argv[1])).acquire()
    print("free", flush=True)
except Locked:
    print("locked", flush=True)
sys.stdin.read()
"""
NO_JAVA = "no java and javac on PATH: whether a JVM's FileLock keeps us out is NOT shown here"


def other_process(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=240)


def test_another_process_is_kept_out_while_it_is_held(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OURS, str(tmp_path)]
    with DirectoryLock(tmp_path):
        kept_out = other_process(command)
        assert "locked" == answer(kept_out)
        end(kept_out)

    let_in = other_process(command)
    assert "free" == answer(let_in)
    with pytest.raises(Locked, match=f"{tmp_path} is locked by another process; a log directory is opened by one"):
        DirectoryLock(tmp_path).acquire()
    end(let_in)
    DirectoryLock(tmp_path).acquire().release()


def test_another_part_of_this_process_is_kept_out_and_does_not_break_it(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        with pytest.raises(Locked, match="locked by this process"):
            DirectoryLock(tmp_path).acquire()

        other = other_process([sys.executable, "-c", OURS, str(tmp_path)])
        assert "locked" == answer(other)
        end(other)


def test_the_file_stays_and_release_may_be_said_twice(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path).acquire()

    lock.release()
    lock.release()

    assert [".lock"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.skipif(not shutil.which("javac"), reason=NO_JAVA)
def test_a_jvm_and_we_keep_each_other_out(tmp_path: Path) -> None:
    source = tmp_path / "Lock.java"
    source.write_text(JAVA)
    subprocess.run(["javac", "-d", str(tmp_path), str(source)], check=True, timeout=240)
    command = ["java", "-Xmx64m", "-cp", str(tmp_path), "Lock", str(tmp_path / ".lock")]

    with DirectoryLock(tmp_path):
        theirs = other_process(command)
        assert "locked" == answer(theirs)
        end(theirs)
    theirs = other_process(command)
    assert "free" == answer(theirs)
    with pytest.raises(Locked):
        DirectoryLock(tmp_path).acquire()
    end(theirs)

    DirectoryLock(tmp_path).acquire().release()
