"""Where the CPU time of processes goes, by stage: samples of Linux's ``perf``, with the names of the JVM's methods."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HERTZ: Final = 997
"""Samples for each second of CPU time."""
ATTACHED_S: Final = 0.5
"""After so long perf samples the machine."""
JAVA_OPTIONS: Final = "-XX:+PreserveFramePointer"
"""Options of a JVM whose stacks perf can read."""
REST: Final = "other"
_SAMPLE: Final = re.compile(r"^(?P<thread>.+?) +(?P<process>\d+)$")

Stages = Mapping[str, "re.Pattern[str]"]
"""Patterns by stage. A sample belongs to the first stage whose pattern matches its thread's name or a frame of it."""


def unavailable() -> str | None:
    """Why nothing can be sampled here; None if it can."""
    missing = [command for command in ("perf", "jcmd") if shutil.which(command) is None]
    if missing:
        return f"{' and '.join(missing)} cannot be found: it needs Linux's perf and a JDK"
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    if os.geteuid() and int(paranoid) > -1:
        return (
            f"perf may not sample the machine: run as root, or set kernel.perf_event_paranoid to -1 (it is {paranoid})"
        )
    return None


@contextmanager
def sampled(
    stages: Mapping[str, Stages], kinds: Callable[[], Mapping[int, str]], jvm: int, directory: Path
) -> Iterator[dict[tuple[str, str], float]]:
    """Sample processes while the context lasts; CPU seconds by kind of process and stage, which are there at its end.

    ``kinds`` has the processes of now that count, and the kind of each; ``stages`` those of a kind; ``jvm`` is the one
    whose methods have names. Raises RuntimeError: perf fails.
    """
    data = directory / "perf.data"
    data.unlink(missing_ok=True)  # of the last time
    command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(HERTZ), "-g", "-o", str(data)]
    seconds: dict[tuple[str, str], float] = {}
    kind_of = dict(kinds())
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
        time.sleep(ATTACHED_S)
        try:
            yield seconds
        finally:
            kind_of |= kinds()
            perf.send_signal(signal.SIGINT)
            _, error = perf.communicate()
    if not data.exists():
        raise RuntimeError(f"perf: {error.strip()}")
    _output("jcmd", str(jvm), "Compiler.perfmap")
    text = _output("perf", "script", "-i", str(data), "-F", "comm,pid,ip,sym,dso", "--no-inline")
    Path(f"/tmp/perf-{jvm}.map").unlink()  # where perf looks for it
    for process, lines in samples(text):
        if kind := kind_of.get(process):
            key = kind, stage(stages[kind], lines)
            seconds[key] = seconds.get(key, 0.0) + 1 / HERTZ


def _output(*command: str) -> str:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip()}")
    return ended.stdout


def samples(script: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The process of each sample in perf's text, and its lines: its thread, then frames, the innermost first."""
    for block in script.split("\n\n"):
        head, *frames = block.strip("\n").splitlines() or [""]
        if found := _SAMPLE.match(head.strip()):
            yield int(found["process"]), [found["thread"].strip(), *(line.split(maxsplit=1)[-1] for line in frames)]


def stage(stages: Stages, lines: Sequence[str]) -> str:
    """The stage of one sample."""
    return next((name for name, pattern in stages.items() if any(map(pattern.search, lines))), REST)
