import pytest

from broker_embedded.log.segment_files import INDEX, LOG, SWAP, Part, rename, rename_deleted, segment_path
from broker_embedded.platform.open_files import OpenFiles
from tests.support.disk import FaultyFileSystem, MemoryFileSystem


class Named:
    def __init__(self, path: str) -> None:
        self.path = path


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem(MemoryFileSystem())


def parts(files: FaultyFileSystem) -> list[Part]:
    made = [(kind, Named(segment_path("", 7, kind))) for kind in (LOG, INDEX)]
    for kind, part in made:
        files.create(part.path).write_at(0, kind.encode())
    files.steps = []
    return list(made)


def test_names_have_twenty_digits() -> None:
    assert segment_path("/d/t-0", 12345, LOG + SWAP) == "/d/t-0/00000000000000012345.log.swap"


def test_an_open_file_can_be_read_after_it_was_renamed(files: FaultyFileSystem) -> None:
    open_files, some = OpenFiles(files, 4), parts(files)
    held = open_files.of(some[0][1])
    rename(some, open_files, "", 7, SWAP)
    assert files.steps == ["rename 00000000000000000007.log", "rename 00000000000000000007.index"]
    assert [part.path for _, part in some] == [segment_path("", 7, LOG + SWAP), segment_path("", 7, INDEX + SWAP)]
    assert open_files.of(some[0][1]) is held
    files.create(segment_path("", 7, LOG)).write_at(0, b"another")
    assert open_files.of(some[0][1]).read_at(0, 99) == b".log"
    assert open_files.get(segment_path("", 7, LOG)).read_at(0, 99) == b"another"


def test_a_file_whose_name_is_taken_over_is_still_its_owners(files: FaultyFileSystem) -> None:
    """As in a compaction: the old log leaves its name to the new one, and both have readers."""
    open_files = OpenFiles(files, 4)
    old, new = Named("/a"), Named("/b")
    for part, content in ((old, b"old"), (new, b"new")):
        files.create(part.path).write_at(0, content)
        assert open_files.of(part).read_at(0, 9) == content
    open_files.rename(old, "/gone")
    open_files.rename(new, "/a")
    assert (open_files.of(old).read_at(0, 9), open_files.of(new).read_at(0, 9)) == (b"old", b"new")
    assert open_files.get("/a").read_at(0, 9) == b"new"


def test_a_renaming_that_fails_changes_nothing(files: FaultyFileSystem) -> None:
    open_files, some = OpenFiles(files, 4), parts(files)
    files.fail("rename *.index")
    with pytest.raises(OSError, match="Input/output"):
        rename(some, open_files, "", 7, SWAP)
    assert [part.path for _, part in some] == [segment_path("", 7, LOG + SWAP), segment_path("", 7, INDEX)]
    assert open_files.of(some[1][1]).read_at(0, 99) == b".index"


def test_deleted_files_that_keep_their_names_or_are_not_there(
    files: FaultyFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    open_files, some = OpenFiles(files, 4), parts(files)
    missing = Named(segment_path("", 7, ".txnindex"))
    files.fail("rename *.index")
    rename_deleted([*some, (".txnindex", missing)], files, open_files, "", 7)
    assert [part.path for _, part in some] == [segment_path("", 7, ".log.deleted"), segment_path("", 7, INDEX)]
    assert missing.path == segment_path("", 7, ".txnindex.deleted")
    assert "cannot be renamed before its deletion" in caplog.text
