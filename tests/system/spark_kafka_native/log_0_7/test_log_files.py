"""``.kafka`` files that are made here by the format of the design document."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_kafka_native._log_0_7 import rows
from spark_kafka_native._log_0_7.files import LogFilesError, find_log_files
from spark_kafka_native._log_0_7.rows import read_rows
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.errors import CorruptBatch, IncompleteBatch
from spark_kafka_native._records.kafka_0_7 import encode_message, encode_messages


def write_log(directory: Path, *files: bytes, base_offset: int = 0) -> Path:
    """A partition's directory with these files, one after the other."""
    directory.mkdir(parents=True)
    for content in files:
        (directory / f"{base_offset:020d}.kafka").write_bytes(content)
        base_offset += len(content)
    return directory


def read(*locations: Path | str) -> list[tuple[str, int, int, bytes]]:
    """Topic-partition, offset, index and value of all messages."""
    return [
        (str(file.partition), row["offset"], row["index"], row["value"])
        for file in find_log_files(map(str, locations))
        for batch in read_rows(file)
        for row in batch.to_pylist()
    ]


def test_a_log_directory_has_the_logs_of_partitions(tmp_path: Path) -> None:
    one = encode_messages([b"a", b"bc"])
    write_log(tmp_path / "my_topic-0", one, encode_message(b"d", magic=0), base_offset=500)
    write_log(tmp_path / "my_topic_10", encode_message(b"e"))
    (tmp_path / "my_topic-0" / ".lock").touch()
    assert read(tmp_path) == [
        ("my_topic-0", 500, 0, b"a"),
        ("my_topic-0", 511, 0, b"bc"),
        ("my_topic-0", 523, 0, b"d"),
        ("my_topic-10", 0, 0, b"e"),
    ]
    assert read(tmp_path.as_uri()) == read(tmp_path / "my_topic-0", tmp_path / "my_topic_10", tmp_path)
    assert [row[3] for row in read(tmp_path / "my_topic-0" / f"{523:020d}.kafka")] == [b"d"]


def test_files_name_their_partition_and_offsets(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-3", encode_message(b"a"), encode_message(b"bb"))
    files = find_log_files([str(log)])
    assert [(file.partition, file.base_offset, file.end_offset, file.is_last) for file in files] == [
        (TopicPartition("t", 3), 0, 11, False),
        (TopicPartition("t", 3), 11, 23, True),
    ]


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY])
def test_messages_of_a_compressed_entry_have_its_offset(tmp_path: Path, codec: CompressionType) -> None:
    first, second = encode_messages([b"a", b"b", b"c"], codec=codec), encode_messages([b"d", b"e"])
    found = read(write_log(tmp_path / "t-0", first + second))
    end = len(first)
    assert [row[1:] for row in found] == [
        (0, 0, b"a"),
        (0, 1, b"b"),
        (0, 2, b"c"),
        (end, 0, b"d"),
        (end + 11, 0, b"e"),
    ]


def test_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries lie across pieces, one is larger than a piece, and a batch is bounded."""
    payloads = [b"x" * size for size in (3, 100, 7, 0, 50, 1)]
    log = write_log(tmp_path / "t-0", encode_messages(payloads), encode_messages(payloads, codec=CompressionType.GZIP))
    expected = read(log)
    for piece in (1, 5, 16, 64):
        monkeypatch.setattr(rows, "_READ_BYTES", piece)
        assert read(log) == expected
    monkeypatch.setattr(rows, "_BATCH_BYTES", 1)
    assert read(log) == expected
    assert [
        (row["offset"], row["next_offset"])
        for batch in read_rows(find_log_files([str(log)])[1])
        for row in batch.to_pylist()
    ] == [(221, find_log_files([str(log)])[1].end_offset)] * 6
    assert all(len(batch) == 1 for batch in read_rows(find_log_files([str(log)])[0]))
    assert [row[3] for row in expected] == payloads * 2


def test_a_message_that_the_broker_did_not_complete_is_skipped_at_the_end_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = encode_message(b"whole")
    log = write_log(tmp_path / "t-0", whole, whole + encode_message(b"cut off")[:-1])
    with caplog.at_level(logging.WARNING):
        assert [row[3] for row in read(log)] == [b"whole", b"whole"]
    (warning,) = caplog.messages
    assert f"t-0/{len(whole):020d}.kafka" in warning
    assert "a message of 17 bytes is cut off after 16" in warning
    first = find_log_files([str(log)])[0]
    (log / "00000000000000000000.kafka").write_bytes(whole[:-1])
    with pytest.raises(IncompleteBatch, match=r"t-0/0+.kafka, position 0"):
        list(read_rows(first))


def test_damage_names_the_file_and_the_position(tmp_path: Path) -> None:
    whole, damaged = encode_message(b"whole"), encode_message(b"damaged")[:-1] + b"?"
    log = write_log(tmp_path / "t-0", whole + damaged + whole, base_offset=100)
    with pytest.raises(CorruptBatch, match=r"checksum .*t-0/0+100.kafka, position 15, base offset 115\)"):
        read(log)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ((), "there are no .kafka files"),
        (("t-0/0.log",), "there are no .kafka files"),
        (("t-0/first.kafka",), "first.kafka: the name of a file must be an offset"),
        (("t-0/99999999999999999999.kafka",), "the name of a file must be an offset"),
        (("t/0.kafka",), "the name of its directory must be topic-partition, not 't'"),
        (("a b-0/0.kafka",), "the name of its directory must be topic-partition, not 'a b-0'"),
        (
            ("t-0/0.kafka", "t-0/11.kafka", "t-0/33.kafka"),
            r"t-0: .*/11.kafka ends at offset 22, .* the files have a gap",
        ),
        (("t-0/0.kafka", "t-0/7.kafka"), r"t-0: .* begins at offset 7: the files overlap"),
    ],
)
def test_files_that_are_no_log_are_refused(tmp_path: Path, names: Sequence[str], problem: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(encode_message(b"a"))
    with pytest.raises(LogFilesError, match=problem):
        find_log_files([str(tmp_path)])


@pytest.mark.parametrize("location", ["/no/such/directory", "nosuchscheme://host/log"])
def test_a_location_that_cannot_be_read_is_named(location: str) -> None:
    with pytest.raises(LogFilesError, match=f"^{location}: "):
        find_log_files([location])
