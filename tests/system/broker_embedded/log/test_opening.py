import subprocess
import sys
from pathlib import Path

MANY_SEGMENTS = """
import resource, sys
from broker_embedded.config.log_config import LogConfig
from broker_embedded.log.opening import open_log
from broker_embedded.platform.platform import Platform
from tests.support.records.log_batches import batch
from tests.support.broker.log_driver import batches_of, offset_for_timestamp

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
log = open_log(sys.argv[1], LogConfig(), Platform())
for _ in range(60):
    log.append(batch(b"v"), leader_epoch=0)
    log.local.roll()
log.close()
for clean in (True, False):
    again = open_log(sys.argv[1], LogConfig(), Platform(), clean_shutdown=clean)
    assert len(again.local.view.bases) == 61
    assert len(list(batches_of(again))) == 60
    assert [offset_for_timestamp(again, 0).offset, again.log_end_offset] == [0, 60]
    again.close()
print("done")
"""


def test_a_log_may_have_more_segments_than_the_process_may_have_open_files(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    command = [sys.executable, "-c", MANY_SEGMENTS, str(directory)]
    response = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4])
    assert response.stdout == "done\n", response.stderr
