import struct

import pytest

from broker_embedded._log.index import CorruptIndex
from broker_embedded._log.transaction_index import AbortedTransaction, TransactionIndex
from broker_embedded._platform.open_files import OpenFiles
from broker_embedded._platform.platform import read_file
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem

PATH = "/00000000000000000000.txnindex"
FIRST = AbortedTransaction(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTransaction(producer_id=8, first_offset=15, last_offset=30, last_stable_offset=31)


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(MemoryFileSystem())


def opened(files: FaultyFileSystem, *, exists: bool = False) -> TransactionIndex:
    return TransactionIndex(PATH, files, OpenFiles(files, 4), exists=exists)


@pytest.fixture
def index(files: FaultyFileSystem) -> TransactionIndex:
    index = opened(files)
    index.append(FIRST)
    index.append(SECOND)
    return index


def test_without_entries_there_is_no_file(files: FaultyFileSystem) -> None:
    index = opened(files)
    index.sync()
    index.truncate_to(0)
    index.reset()
    assert (index.entries(), index.overlapping(0, 100), index.exists) == ([], ([], False), False)
    assert not files.exists(PATH)


def test_entries_are_kafkas(files: FaultyFileSystem, index: TransactionIndex) -> None:
    assert read_file(files, PATH) == struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 15, 0, 8, 15, 30, 31)
    assert opened(files, exists=True).entries() == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "found", "complete"),
    [
        (0, 10, [], True),
        (0, 11, [FIRST], True),
        (20, 21, [FIRST, SECOND], True),
        (21, 31, [SECOND], True),
        (21, 32, [SECOND], False),
        (31, 40, [], False),
    ],
)
def test_transactions_overlapping_a_range(
    index: TransactionIndex, from_offset: int, until_offset: int, found: list[AbortedTransaction], complete: bool
) -> None:
    assert index.overlapping(from_offset, until_offset) == (found, complete)


def test_cutting_drops_the_markers_from_an_offset_on(index: TransactionIndex) -> None:
    index.truncate_to(31)
    assert index.entries() == [FIRST, SECOND]
    index.truncate_to(30)
    assert index.entries() == [FIRST]
    index.append(SECOND)
    index.truncate_to(5)
    assert index.entries() == []


def test_an_entry_torn_by_a_crash_is_ignored_and_written_over(files: FaultyFileSystem, index: TransactionIndex) -> None:
    file = files.open(PATH)
    file.truncate(file.size() - 5)
    assert index.entries() == [FIRST]
    index.append(SECOND)
    assert index.entries() == [FIRST, SECOND]


def test_an_unknown_version_is_not_guessed_at(files: FaultyFileSystem, index: TransactionIndex) -> None:
    files.open(PATH).write_at(0, b"\0\5")
    with pytest.raises(CorruptIndex, match="version 5"):
        index.entries()
