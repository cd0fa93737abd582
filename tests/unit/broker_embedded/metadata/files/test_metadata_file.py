"""Metadata files: replaced as a whole, readable by the broker's user alone if private, never guessed at."""

import errno
import logging
from typing import Any

import pytest

from broker_embedded.metadata.files.metadata_file import MetadataFile, MetadataFileError, refuse_unknown
from broker_embedded.platform.platform import read_file
from tests.support.disk import FaultyFileSystem
from tests.support.metadata import DATA_DIR, new_disk


def _parse(document: dict[str, Any]) -> str:
    refuse_unknown(document, {"version", "text"})
    return str(document["text"])


def a_file(*, credentials: bool = False) -> MetadataFile[str]:
    return MetadataFile(
        name="text.json",
        encode=lambda text: f'{{"version": 1, "text": "{text}"}}'.encode(),
        parse=_parse,
        empty=lambda: "none",
        private=True,
        credentials=credentials,
    )


FILE = a_file()
PATH = f"{DATA_DIR}/text.json"


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(new_disk())


def test_the_value_without_a_file_is_empty(files: FaultyFileSystem) -> None:
    assert FILE.read(files, DATA_DIR) == "none"


def test_the_new_file_stands_in_place_of_the_old_one(files: FaultyFileSystem) -> None:
    for text in ("first", "second, which is longer", ""):
        FILE.write(files, DATA_DIR, text)
        assert FILE.read(files, DATA_DIR) == text


def test_a_disk_that_fails_leaves_the_old_file(files: FaultyFileSystem) -> None:
    FILE.write(files, DATA_DIR, "old")
    files.fail("sync text.json.tmp", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left on device"):
        FILE.write(files, DATA_DIR, "new")
    assert FILE.read(files, DATA_DIR) == "old"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b'{"text": "a"}', "KeyError: 'version'"),
        (b'{"version": 2, "text": "a"}', "version 2; this broker reads version 1"),
        (b'{"version": 1, "text": "a", "more": 1, "and": 2}', "unknown keys and, more"),
    ],
)
def test_an_error_names_the_file(files: FaultyFileSystem, raw: bytes, said: str) -> None:
    files.create(PATH).write_at(0, raw)
    with pytest.raises(MetadataFileError, match=f"^{PATH}: {said}"):
        FILE.read(files, DATA_DIR)


def test_an_error_in_a_file_of_credentials_repeats_none() -> None:
    with pytest.raises(MetadataFileError) as caught:
        a_file(credentials=True).decode(b'{"version": 1, "hunter2')
    assert "hunter2" not in str(caught.value)


def test_a_file_whose_mode_cannot_be_changed_is_read_with_a_warning(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    FILE.write(files, DATA_DIR, "secret")
    assert FILE.read(files, DATA_DIR) == "secret"
    assert caplog.text == ""
    files.fail("make_private text.json", errno.EPERM)
    assert FILE.read(files, DATA_DIR) == "secret"
    assert f"{PATH}: mode 0600 cannot be set, so other users of this machine may read the file" in caplog.text


def test_the_temporary_file_of_an_interrupted_write_is_removed(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    FILE.write(files, DATA_DIR, "text")
    FILE.remove_unfinished(files, DATA_DIR)
    assert caplog.text == ""
    files.create(f"{PATH}.tmp")
    files.fail("remove text.json.tmp", errno.EROFS)
    FILE.remove_unfinished(files, DATA_DIR)
    assert f"{PATH}.tmp: cannot be removed, so other users of this machine may read it" in caplog.text
    files.heal()
    with caplog.at_level(logging.WARNING):
        FILE.remove_unfinished(files, DATA_DIR)
    assert not files.exists(f"{PATH}.tmp")
    assert read_file(files, PATH) == FILE.encode("text")
