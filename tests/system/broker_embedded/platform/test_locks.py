import subprocess
import sys
from pathlib import Path

from broker_embedded._platform.platform import RealFileSystem


def test_a_lock_excludes_another_process(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    code = (
        "import sys\nfrom broker_embedded._platform.platform import RealFileSystem\n"
        "try:\n    RealFileSystem().lock(sys.argv[1])\nexcept BlockingIOError as error:\n    print(error.strerror)"
    )
    lock = RealFileSystem().lock(path)
    taken = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert taken.stdout == "locked by another process\n"
    lock.release()
    assert subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True).stdout == b""
