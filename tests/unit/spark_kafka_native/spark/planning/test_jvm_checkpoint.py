import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.planning.jvm_checkpoint import parse_initial_offsets, read_initial_offsets

INITIAL = b'\0v1\n{"kafka-initial":{"2":0,"1":7,"0":9223372036854775807}}'
OFFSETS = {TopicPartition("kafka-initial", n): offset for n, offset in enumerate([2**63 - 1, 7, 0])}

pytestmark = pytest.mark.feature("more.jvmCheckpoint")


def checkpoint(root: Path, **sources: bytes) -> Path:
    for name, content in sources.items():
        directory = root / "sources" / name.removeprefix("s")
        directory.mkdir(parents=True)
        (directory / "0").write_bytes(content)
    return root


def test_initial_offset_with_an_extra_byte() -> None:
    assert parse_initial_offsets(INITIAL) == OFFSETS


@pytest.mark.parametrize("length", [b"\x2e", b"{", b"v", b"\xff"])
def test_initial_offset_written_by_spark_2_1_0(length: bytes) -> None:
    """Its first byte is the length of the text, whatever character that is."""
    assert parse_initial_offsets(length + b'{"t":{"0":3}}') == {TopicPartition("t", 0): 3}


def test_initial_offset_without_partitions() -> None:
    assert parse_initial_offsets(b"\0v1\n{}") == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'\0v2\n{"t":{"0":3}}', "version v2 is later than v1"),
        (b'\0v99999\n{"t":{"0":3}}', "version v99999"),
        (b"\0vx\n{}", "'vx' is not a version"),
        (b"\0v1", "Expecting value"),
        (b"", "Expecting value"),
        (b"\0", "Expecting value"),
        (b"\0v1\n[1]", "expected a JSON object of topics"),
        (b'\0v1\n{"t":3}', "needs an object of partitions"),
        (b'\0v1\n{"t":{"0":-1}}', "-1 of t-0 is not a valid offset"),
        (b"\0v1\n\xff", "not text"),
    ],
)
def test_initial_offset_written_by_a_future_version_or_damaged(content: bytes, complaint: str, tmp_path: Path) -> None:
    location = str(checkpoint(tmp_path, s0=content))
    with pytest.raises(OptionError, match=r"option 'jvmCheckpoint': file sources/0/0 in .* cannot be used: ") as caught:
        read_initial_offsets(location)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("cut", range(len(INITIAL)))
def test_every_shorter_file_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_initial_offsets(INITIAL[:cut])


def test_checkpoint_or_the_directory_of_a_source_by_path_or_uri(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "a b", s0=INITIAL)
    for location in (str(root), f"{root}/", root.as_uri(), str(root / "sources" / "0"), f"file:{root}"):
        assert read_initial_offsets(location) == OFFSETS


def test_one_of_several_sources_must_be_named(tmp_path: Path) -> None:
    root = checkpoint(tmp_path, s0=b'\0v1\n{"t":{"0":3}}', s1=INITIAL)
    with pytest.raises(OptionError, match=r"several sources.* sources/0, sources/1"):
        read_initial_offsets(str(root))
    assert read_initial_offsets(str(root / "sources" / "1")) == OFFSETS


def test_checkpoint_sources_other_than_kafka_are_skipped(tmp_path: Path) -> None:
    root = checkpoint(tmp_path, s1=INITIAL)
    (root / "sources" / "0").mkdir()
    assert read_initial_offsets(str(root)) == OFFSETS


@pytest.mark.parametrize("location", ["nothing/here", "file:///nothing/here", "file:///a%00b", "/a/\ud800"])
def test_missing_checkpoint_is_an_error(location: str) -> None:
    with pytest.raises(OptionError, match="has no file 0, so it is not a checkpoint"):
        read_initial_offsets(location)


def test_only_regular_files_of_a_checkpoint_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0")
    with pytest.raises(OptionError, match="has no file 0, so it is not a checkpoint"):
        read_initial_offsets(str(tmp_path))


def test_unreadable_checkpoint_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: object) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    root = checkpoint(tmp_path, s0=INITIAL)
    monkeypatch.setattr(os, "listdir", fails)
    with pytest.raises(OptionError, match=r"cannot be read: .* Input/output error"):
        read_initial_offsets(str(root))


def test_unknown_file_system_of_a_checkpoint_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"dbfs://x/y is on a file system that cannot be read here"):
        read_initial_offsets("dbfs://x/y")


def test_other_file_systems_are_read_through_pyarrow(tmp_path: Path) -> None:
    pyarrow_fs = pytest.importorskip("pyarrow.fs")
    root = checkpoint(tmp_path, s0=INITIAL)
    bucket = pyarrow_fs.SubTreeFileSystem(str(tmp_path.parent), pyarrow_fs.LocalFileSystem())
    with pytest.MonkeyPatch.context() as patch:
        opener = SimpleNamespace(from_uri=lambda uri: (bucket, uri.removeprefix("s3://")))
        patch.setattr(pyarrow_fs, "FileSystem", opener)
        assert read_initial_offsets(f"s3://{root.name}") == OFFSETS
        with pytest.raises(OptionError, match="has no file 0"):
            read_initial_offsets("s3://other")
