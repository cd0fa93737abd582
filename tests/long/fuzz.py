"""Runs atheris, which steers inputs by the code that they reach, on the targets of `tests.support.fuzz_targets`.

    python -m tests.long.fuzz [frames records indexes messages] [--minutes 10] [--grow]

Two targets at a time, each for so many minutes; then a table, which is kept in tests/results when all targets were run.
It needs ``atheris`` from PyPI. The corpus of tests/golden/fuzz is where it starts; ``--grow`` adds the inputs that
reach what none did before, as few as will do. Exit status 1: an input was found that something is wrong with, takes
longer than half a minute, or more memory than `MOST_MEMORY_MB`; it is printed in hex, to be replayed by adding it to
the corpus. Each run is a process of its own, because libFuzzer ends the one it is in.
"""

import argparse
import importlib
import importlib.util
import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.table import Table

from benchmarks.support.machine import commit
from tests.support.fuzz_corpus import MOST_BYTES, read_corpus, write_corpus
from tests.support.result_page import ResultPage, table

TARGETS: Final = {
    "frames": "request frames, at a broker that answers them",
    "messages": "every request and response, in every version, decoded and encoded again",
    "records": "record batches and message sets, as a consumer gets and as a producer sends them",
    "indexes": "segments, indexes, snapshots and checkpoints of a log that is opened",
}
MOST_MEMORY_MB: Final = 1024
MOST_SECONDS: Final = 30
AT_ONCE: Final = 2
_CHILD: Final = "--child"
_PACKAGES: Final = ["broker_embedded", "spark_kafka_native"]
_STATISTICS: Final = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """What came of a target: how many inputs it was given, its memory at its largest, and inputs that are wrong."""

    name: str
    inputs: int
    memory_mb: int
    corpus: int
    wrong: tuple[bytes, ...]
    output: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.wrong and not self.output


def main() -> int:
    """Fuzz from the command line; the exit status."""
    logging.disable(logging.CRITICAL)  # what is repaired is logged, and here everything is
    if sys.argv[1:2] == [_CHILD]:
        return _fuzz(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target (10)")
    parser.add_argument("--grow", action="store_true", help="add what was found to be of interest to the corpus")
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris")
        return 2
    head = commit()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(
            pool.map(lambda name: run(name, options.minutes, grow=options.grow), options.targets or list(TARGETS))
        )
    bound = f"an input that takes more than {MOST_SECONDS} s or {MOST_MEMORY_MB} MB is wrong, too."
    page = ResultPage(
        name="fuzz",
        title="Bytes that fuzzers made",
        command=f"make test-fuzz MINUTES={options.minutes:g}",
        commit=head,
        parts=(
            f"{options.minutes:g} minutes each, two at a time; {bound}",
            summary(done),
            *(f"{each.name}: {wrong.hex()}" for each in done for wrong in each.wrong),
        ),
    )
    page.publish(keep=not options.targets)
    for each in done:
        print(each.output, end="")
    return 0 if all(each.is_sound for each in done) else 1


def run(target: str, minutes: float, *, grow: bool) -> Fuzzed:
    """Fuzz one target in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, found = Path(scratch, "corpus"), Path(scratch, "found")
        corpus.mkdir()
        found.mkdir()
        for number, each in enumerate(read_corpus(target)):
            (corpus / f"kept-{number}").write_bytes(each)
        limits = [f"-max_total_time={max(1, round(minutes * 60))}", f"-max_len={MOST_BYTES}"]
        limits += [f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MEMORY_MB}", "-print_final_stats=1"]
        command = [sys.executable, "-m", "tests.long.fuzz", _CHILD, target, *limits, f"-artifact_prefix={found}/"]
        answer = subprocess.run([*command, str(corpus)], capture_output=True, text=True, errors="replace", check=False)
        statistics = dict(_STATISTICS.findall(answer.stderr))
        reached = [path.read_bytes() for path in corpus.iterdir()]
        if grow and answer.returncode == 0:
            write_corpus(target, _worth_keeping(target, read_corpus(target) + reached))
        return Fuzzed(
            name=target,
            inputs=int(statistics.get("number_of_executed_units", 0)),
            memory_mb=int(statistics.get("peak_rss_mb", 0)),
            corpus=len(reached),
            wrong=tuple(path.read_bytes() for path in sorted(found.iterdir())),
            output=answer.stderr[-4000:] if answer.returncode else "",
        )


def summary(done: Sequence[Fuzzed]) -> Table:
    """A row for each target."""
    rows = table("target", "what it is fed", "inputs", "of interest", "memory at most", "wrong")
    for each in done:
        wrong = "nothing" if each.is_sound else str(len(each.wrong) or "ended by itself")
        rows.add_row(each.name, TARGETS[each.name], f"{each.inputs:,}", str(each.corpus), f"{each.memory_mb} MB", wrong)
    return rows


def _worth_keeping(target: str, inputs: list[bytes]) -> list[bytes]:
    """Those that reach a line that none before them reaches, looked at from the shortest to the longest."""
    from tests.support import fuzz_targets

    give, seen, kept = fuzz_targets.TARGETS[target](), set[tuple[str, int]](), list[bytes]()
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if not any(package in name for package in _PACKAGES) and not name.startswith("<codec"):
            return None
        if event == "line":
            reached.add((name, frame.f_lineno))
        return trace

    for each in sorted(set(inputs), key=lambda each: (len(each), each)):
        reached.clear()
        sys.settrace(trace)
        try:
            give(each)
        finally:
            sys.settrace(None)
        if not reached <= seen:
            seen |= reached
            kept.append(each)
    return kept


def _fuzz(target: str, options: Sequence[str]) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_PACKAGES):
        from tests.support import fuzz_targets
    give = fuzz_targets.TARGETS[target]()
    atheris.Setup([sys.argv[0], *options], give)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
