"""A batch load that is killed at a step of our choice, again and again: ``python -m tests.support.kills.reload``.

Every run happens in a child process on a storage that ends the process before, after or in the middle of the n-th
operation of a kind. Then the same run is made once more, and what is found in the target is printed, a line of JSON for
each kill. One process does it all because starting one takes a second and a kill takes a hundredth of that.
"""

import contextlib
import fnmatch
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from tests.support.spark.reload_driver import ReloadDriver

Moment = Literal["before", "half", "after"]


@dataclass(frozen=True)
class Step:
    """An operation on paths that match, when during it the process ends, and at which such operation."""

    operation: str
    path: str
    moment: Moment
    count: int = 1


LOAD_STEPS: Final[dict[str, Step]] = {
    "lease: not there": Step("create", "_leases/*", "before"),
    "lease: written under another name": Step("link", "*_leases/*", "before"),
    "lease: there": Step("create", "_leases/*", "after"),
    "first file: not there": Step("open", "_loads/*", "before"),
    "first file: empty": Step("write", "_loads/*", "before"),
    "first file: half written": Step("write", "_loads/*", "half"),
    "first file: written, not synced": Step("write", "_loads/*", "after"),
    "first file: whole": Step("open", "_loads/*", "after"),
    "second file: half written": Step("write", "_loads/*", "half", 2),
    "all files there": Step("create", "_manifests/*", "before"),
    "version: written under another name": Step("link", "*_manifests/*", "before"),
    "version: there, its other name too": Step("link", "*_manifests/*", "after"),
    "version: there": Step("create", "_manifests/*", "after"),
    "lease: not released": Step("remove", "_leases/*", "before"),
    "lease: released": Step("remove", "_leases/*", "after"),
}
PART_STEPS: Final[dict[str, Step]] = {
    "part: not there": Step("create", "_loads/*", "before"),
    "part: written under another name": Step("link", "*_loads/*", "before"),
    "part: there": Step("create", "_loads/*", "after"),
    "second part: there": Step("create", "_loads/*", "after", 2),
}
"""Of runs that move entries out of the manifest."""
CLEAN_STEPS: Final[dict[str, Step]] = {
    "clean: before its lease": Step("create", "_leases/*", "before"),
    "clean: nothing done": Step("create", "_manifests/*", "before"),
    "clean: the dead are named": Step("create", "_manifests/*", "after"),
    "clean: a lease of the dead is gone": Step("remove", "_leases/*", "after"),
    "clean: an old version not gone": Step("remove", "_manifests/*", "before"),
    "clean: an old version gone": Step("remove", "_manifests/*", "after"),
    "clean: a file not gone": Step("remove", "_loads/*", "before"),
    "clean: a file gone": Step("remove", "_loads/*", "after"),
    "clean: its lease not released": Step("remove", "_leases/*", "before", 2),
}


def end() -> None:
    """End this process as a crash would."""
    os.kill(os.getpid(), signal.SIGKILL)


class DoomedStorage(LocalStorage):
    """A directory with one operation too many."""

    def __init__(self, root: str, step: Step) -> None:
        super().__init__(root)
        self._step = step
        self._seen: Counter[str] = Counter()

    def create(self, path: str, data: bytes) -> None:
        with self._around("create", path):
            super().create(path, data)

    def remove(self, path: str) -> None:
        with self._around("remove", path):
            super().remove(path)

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        with self._around("open", path), super().open_output(path) as stream:
            yield _DoomedStream(self, path, stream)  # type: ignore[misc]  # all that is done with it is to write

    def reached(self, operation: str, path: str, moment: Moment) -> bool:
        """Whether this is the step; the process has ended then, unless the moment is half a write."""
        step = self._step
        if (operation, moment) != (step.operation, step.moment) or not fnmatch.fnmatch(path, step.path):
            return False
        self._seen[operation] += 1
        if self._seen[operation] < step.count:
            return False
        if moment != "half":
            end()
        return True

    def _link(self, temporary: str, final: str) -> None:
        with self._around("link", final):
            super()._link(temporary, final)

    @contextlib.contextmanager
    def _around(self, operation: str, path: str) -> Iterator[None]:
        self.reached(operation, path, "before")
        yield
        self.reached(operation, path, "after")


class _DoomedStream:
    def __init__(self, storage: DoomedStorage, path: str, stream: IO[bytes]) -> None:
        self._storage = storage
        self._path = path
        self._stream = stream

    def write(self, data: Any) -> int:
        self._storage.reached("write", self._path, "before")
        if self._storage.reached("write", self._path, "half"):
            self._stream.write(data[: len(data) // 2])
            self._stream.flush()
            end()
        written = self._stream.write(data)
        self._storage.reached("write", self._path, "after")
        return written


def is_killed(action: Callable[[], object]) -> bool:
    """Do something in a child process; whether that was killed."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            action()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def first_load(driver: ReloadDriver) -> str | None:
    driver.tail_entries = 1
    driver.produce("t", 0, 30)
    driver.produce("t", 1, 25)
    return None


def next_load(driver: ReloadDriver) -> str | None:
    first_load(driver)
    driver.load(max_records_per_task=20)
    driver.produce("t", 0, 15)
    driver.produce("u", 0, 5)
    return None


def load_from_a_point(driver: ReloadDriver) -> str | None:
    next_load(driver)
    driver.load()
    driver.produce("t", 1, 3)
    return '{"t":{"0":17}}'


def kill_a_load(prepare: Callable[[ReloadDriver], str | None], step: Step, root: Path) -> dict[str, object]:
    """Kill a run; run it again; clean. What a user finds at each moment."""
    driver = ReloadDriver(root)
    start = prepare(driver)
    before = driver.records()
    doomed = DoomedStorage(str(root), step)
    killed = is_killed(lambda: driver.load(start, storage=doomed, max_records_per_task=20))
    after = driver.records()
    driver.load(start, max_records_per_task=20)
    again = driver.records()
    driver.clean()
    driver.clean()  # the first leaves the version before the one that it makes
    return {
        "killed": killed,
        "all_or_nothing": after in (before, driver.produced()),
        "once": again == driver.produced(),
        "clean": driver.records() == driver.produced() and driver.unnamed_files() == [],
    }


def kill_a_clean(step: Step, root: Path) -> dict[str, object]:
    """Kill a clean of a target with a dead run and three versions; load; clean again."""
    driver = ReloadDriver(root)
    start = load_from_a_point(driver)
    driver.load(start)
    is_killed(lambda: driver.load("earliest", storage=DoomedStorage(str(root), LOAD_STEPS["all files there"])))
    killed = is_killed(lambda: driver.clean(storage=DoomedStorage(str(root), step)))
    after = driver.records()
    once = after == driver.produced()
    driver.produce("t", 0, 4)
    driver.load()
    again = driver.records()
    driver.clean()
    driver.clean()  # the first leaves the version before the one that it makes
    return {
        "killed": killed,
        "all_or_nothing": once,
        "once": again == driver.produced(),
        "clean": driver.records() == driver.produced() and driver.unnamed_files() == [],
    }


def main() -> None:
    """Kill at every step of every kind of run; a line of JSON for each."""
    os.fsync = lambda fd: None  # a process that is killed loses nothing that it has handed to the system
    with tempfile.TemporaryDirectory(prefix="doomed-reload-") as directory:
        roots = (Path(directory, str(number)) for number in range(1_000_000))
        for prepare in (first_load, next_load, load_from_a_point):
            for name, step in (LOAD_STEPS | PART_STEPS).items():
                found = kill_a_load(prepare, step, next(roots))
                print(json.dumps({"run": prepare.__name__, "step": name, **found}))
        for name, step in CLEAN_STEPS.items():
            print(json.dumps({"run": "clean", "step": name, **kill_a_clean(step, next(roots))}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
