"""meta.properties: whose directory it is, and refusals that name file, value and rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.storage.meta_properties import MetaProperties, check_owner, read_meta_properties, write_meta_properties
from quorate.storage.names import META_PROPERTIES

META = MetaProperties(cluster_id="4L6g3nShT-eMCtK--X86sw", node_id=3, directory_id=Uuid(bytes(range(50, 66))))
GOOD = {
    "version": "1",
    "node.id": "3",
    "cluster.id": "4L6g3nShT-eMCtK--X86sw",
    "directory.id": "MjM0NTY3ODk6Ozw9Pj9AQQ",
}


def written(directory: Path, **changes: str | None) -> Path:
    keyed = {key.replace("_", "."): value for key, value in changes.items()}
    lines = [f"{key}={value}" for key, value in {**GOOD, **keyed}.items() if value is not None]
    path = directory / META_PROPERTIES
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("meta", [META, MetaProperties(cluster_id="x", node_id=0, directory_id=None)])
def test_what_is_written_is_read(tmp_path: Path, meta: MetaProperties) -> None:
    write_meta_properties(tmp_path, meta)

    assert meta == read_meta_properties(tmp_path)
    assert [META_PROPERTIES] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("cluster_id", ["a\\b", "  led", "a:b=c", "#!", "x\nnode.id=5", "uml\u00e4ut", "\U0001f980"])
def test_a_cluster_id_comes_back_whatever_is_in_it(tmp_path: Path, cluster_id: str) -> None:
    meta = MetaProperties(cluster_id=cluster_id, node_id=3, directory_id=META.directory_id)

    write_meta_properties(tmp_path, meta)

    assert meta == read_meta_properties(tmp_path)
    assert (tmp_path / META_PROPERTIES).read_bytes().isascii()


def test_reads_what_kafka_writes(tmp_path: Path) -> None:
    written(tmp_path)

    assert META == read_meta_properties(tmp_path)


def test_reads_the_version_before_kraft(tmp_path: Path) -> None:
    written(tmp_path, version="0", node_id=None, broker_id="3", directory_id=None)

    found = read_meta_properties(tmp_path)

    assert MetaProperties(cluster_id=META.cluster_id, node_id=3, directory_id=None, version=0) == found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "2"}, "version is 2; 0 and 1 are known"),
        ({"version": None}, "version is None, not a number"),
        ({"cluster_id": None}, "cluster.id is missing"),
        ({"cluster_id": ""}, "cluster.id is missing"),
        ({"node_id": "three"}, "node.id is 'three', not a number"),
        ({"node_id": "-1"}, "node.id is -1; it must not be negative"),
        ({"directory_id": "short"}, "directory.id: "),
        ({"directory_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, "the first hundred ids are reserved"),
    ],
)
def test_refuses_what_cannot_be(tmp_path: Path, changes: dict[str, str | None], reason: str) -> None:
    path = written(tmp_path, **changes)

    with pytest.raises(Corrupt, match=reason) as refused:
        read_meta_properties(tmp_path)

    assert path == refused.value.path


def test_an_owner_is_let_in_and_nobody_else(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="not formatted: run `quorate storage format` first"):
        check_owner(tmp_path, node_id=3)
    written(tmp_path)

    assert META == check_owner(tmp_path, node_id=3, cluster_id=META.cluster_id)
    with pytest.raises(Corrupt, match=r"node\.id is 3, the configuration says 4: it is another node's"):
        check_owner(tmp_path, node_id=4)
    with pytest.raises(Corrupt, match=r"cluster\.id is 4L6g3nShT-eMCtK--X86sw, other is expected"):
        check_owner(tmp_path, node_id=3, cluster_id="other")


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    write_meta_properties(tmp_path, META)
    path = tmp_path / META_PROPERTIES
    whole = path.read_bytes()
    for at in range(len(whole)):
        for mask in (1, 0x20, 0x80, 0xFF):
            path.write_bytes(whole[:at] + bytes((whole[at] ^ mask,)) + whole[at + 1 :])

            with pytest.raises(Corrupt):
                read_meta_properties(tmp_path)


def test_it_may_not_be_cut_within_its_checksum(tmp_path: Path) -> None:
    write_meta_properties(tmp_path, META)
    path = tmp_path / META_PROPERTIES
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(Corrupt, match="its last line is"):
        read_meta_properties(tmp_path)
