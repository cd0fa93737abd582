"""Files that are replaced as a whole: the new one, or the old one and an error that clients know."""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import TypeVar

import pytest

from broker_embedded.platform.platform import read_file
from broker_embedded.platform.stored_files import read_private_file, remove_unfinished, replace_file
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from tests.support.disk import FaultyFileSystem, MemoryFileSystem

PATH = "/data/topics.json"
ResultT = TypeVar("ResultT")


async def at_once(function: Callable[[], ResultT]) -> ResultT:
    return function()


@pytest.fixture
def files() -> FaultyFileSystem:
    made = FaultyFileSystem(MemoryFileSystem())
    made.make_directory("/data")
    return made


def test_the_new_file_stands_in_place_of_the_old_one(files: FaultyFileSystem) -> None:
    for raw in (b"first", b"second, which is longer", b""):
        asyncio.run(replace_file(at_once, files, PATH, raw))
        assert read_file(files, PATH) == raw


def test_a_disk_that_fails_leaves_the_old_file_and_says_which(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(replace_file(at_once, files, PATH, b"old"))
    files.fail("sync topics.json.tmp", errno.ENOSPC)
    with caplog.at_level(logging.ERROR), pytest.raises(KafkaError) as caught:
        asyncio.run(replace_file(at_once, files, PATH, b"new"))
    assert (caught.value.code, caught.value.detail) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{PATH}: No space left on device",
    )
    assert f"{PATH} cannot be written" in caplog.text
    assert read_file(files, PATH) == b"old"


def test_a_file_whose_mode_cannot_be_changed_is_read_with_a_warning(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(replace_file(at_once, files, PATH, b"secret"))
    assert read_private_file(files, PATH) == b"secret"
    assert caplog.text == ""
    files.fail("make_private topics.json", errno.EPERM)
    assert read_private_file(files, PATH) == b"secret"
    assert f"{PATH}: mode 0600 cannot be set, so other users of this machine may read the file" in caplog.text


def test_an_unfinished_file_that_cannot_be_removed_is_named_in_a_warning(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    remove_unfinished(files, PATH)
    assert caplog.text == ""
    files.create(f"{PATH}.tmp")
    files.fail("remove topics.json.tmp", errno.EROFS)
    remove_unfinished(files, PATH)
    assert f"{PATH}.tmp: cannot be removed, so other users of this machine may read the file" in caplog.text
