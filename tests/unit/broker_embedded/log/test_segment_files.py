from broker_embedded.log.segment_files import LOG, SWAP, segment_path
from broker_embedded.platform.open_files import OpenFiles
from tests.support.broker.disk import MemoryFileSystem


class Named:
    def __init__(self, path: str) -> None:
        self.path = path


def test_names_have_twenty_digits() -> None:
    assert segment_path("/d/t-0", 12345, LOG + SWAP) == "/d/t-0/00000000000000012345.log.swap"


def test_a_file_whose_name_is_taken_over_is_still_its_owners() -> None:
    """As in a compaction: the old log leaves its name to the new one, and both have readers."""
    files = MemoryFileSystem()
    open_files = OpenFiles(files, 4)
    old, new = Named("/a"), Named("/b")
    for part, content in ((old, b"old"), (new, b"new")):
        files.create(part.path).write_at(0, content)
        assert open_files.of(part).read_at(0, 9) == content
    open_files.rename(old, "/gone")
    open_files.rename(new, "/a")
    assert (open_files.of(old).read_at(0, 9), open_files.of(new).read_at(0, 9)) == (b"old", b"new")
    assert open_files.get("/a").read_at(0, 9) == b"new"
