"""Runs atheris, which steers inputs by the code that they reach, and Hypothesis, with seeds that none had before.

    python -m tests.long.fuzz [frames messages records indexes properties] [--minutes 10] [--grow]

Two targets at a time, each for so many minutes; then a table, which is kept in tests/results when all targets were run.
Every run of a target is a line of ``tests/results/fuzz.jsonl``. It needs ``atheris`` from PyPI.

atheris has the targets of `tests.support.records.fuzz_targets`, and the corpus of tests/golden/fuzz to start from;
``--grow`` adds the inputs that reach what none did before, as few as will do. Exit status 1: an input was found that
something is wrong with, takes longer than half a minute, or more memory than `MAX_MEMORY_MB`; it is printed in hex, to
be replayed by adding it to the corpus. Each run is a process of its own, because libFuzzer ends the one it is in.

``properties`` are all tests with Hypothesis, one seed after the other; ``make test`` runs them with the same examples
every time. What fails is printed with its seed, and exit status 1.
"""

import argparse
import dataclasses
import importlib
import importlib.util
import json
import logging
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.table import Table

from benchmarks.support.machine import ROOT, commit
from tests.support.records.fuzz_corpus import MAX_BYTES, read_corpus, write_corpus
from tests.support.report import RESULTS, ResultPage, table

LOG: Final = RESULTS / "fuzz.jsonl"
PROPERTIES: Final = "properties"
TARGETS: Final = {
    "frames": "request frames, at a broker that answers them",
    "messages": "every request and response, in every version, decoded and encoded again",
    "records": "record batches and message sets, as a consumer gets and as a producer sends them",
    "indexes": "segments, indexes, snapshots and checkpoints of a log that is opened",
    PROPERTIES: "what Hypothesis makes, in every test that has properties",
}
MAX_MEMORY_MB: Final = 1024
MAX_SECONDS: Final = 30
AT_ONCE: Final = 2
_CHILD: Final = "--child"
_PACKAGES: Final = ["broker_embedded", "spark_kafka_native"]
_STATISTICS: Final = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
_EXAMPLES: Final = re.compile(r"(\d+) passing, (\d+) failing, and (\d+) invalid test cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """What came of a target: its seeds, how many inputs it was given, and those that are wrong, in hex.

    Of atheris also the memory at its largest, and how many inputs reach what others do not.
    """

    name: str
    seeds: tuple[int, ...]
    inputs: int
    memory_mb: int | None = None
    corpus: int | None = None
    wrong: tuple[str, ...] = ()
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
    head, last = commit(), last_seeds()

    def fuzz(name: str) -> Fuzzed:
        seed = last.get(name, 0) + 1
        if name == PROPERTIES:
            return run_properties(seed, options.minutes)
        return run(name, seed, options.minutes, grow=options.grow)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(fuzz, options.targets or list(TARGETS)))
    with LOG.open("a", encoding="utf-8") as file:
        for each in done:
            line = {"commit": head, "minutes": options.minutes, **dataclasses.asdict(each)}
            file.write(json.dumps(line) + "\n")
    bound = f"an input of atheris that takes more than {MAX_SECONDS} s or {MAX_MEMORY_MB} MB is wrong, too."
    page = ResultPage(
        name="fuzz",
        title="Bytes that fuzzers made",
        command=f"make test-fuzz MINUTES={options.minutes:g}",
        commit=head,
        parts=(
            f"{options.minutes:g} minutes each, two at a time; {bound}",
            summary(done),
            *(f"{each.name}: {wrong}" for each in done for wrong in each.wrong),
        ),
    )
    page.publish(keep=not options.targets)
    for each in done:
        print(each.output, end="")
    return 0 if all(each.is_sound for each in done) else 1


def last_seeds() -> Mapping[str, int]:
    """The largest seed that a target has had, by its name."""
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.exists() else []
    found: dict[str, int] = {}
    for line in map(json.loads, lines):
        found[line["name"]] = max(found.get(line["name"], 0), *line["seeds"])
    return found


def run_properties(seed: int, minutes: float) -> Fuzzed:
    """All properties, one seed after the other until the time is over."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "tests/unit", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile", "fuzz", "--hypothesis-show-statistics"]
    until, inputs, output, seeds = time.monotonic() + minutes * 60, 0, "", list[int]()
    while not seeds or time.monotonic() < until:
        seeds.append(seed + len(seeds))
        response = subprocess.run(
            [*command, f"--hypothesis-seed={seeds[-1]}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        made = sum(int(count) for counts in _EXAMPLES.findall(response.stdout) for count in counts)
        inputs += made
        if response.returncode or not made:
            output += f"--hypothesis-seed={seeds[-1]}\n{response.stdout[-8000:]}{response.stderr[-4000:]}"
    return Fuzzed(name=PROPERTIES, seeds=tuple(seeds), inputs=inputs, output=output)


def run(target: str, seed: int, minutes: float, *, grow: bool) -> Fuzzed:
    """Fuzz one target in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, found = Path(scratch, "corpus"), Path(scratch, "found")
        corpus.mkdir()
        found.mkdir()
        for number, each in enumerate(read_corpus(target)):
            (corpus / f"kept-{number}").write_bytes(each)
        limits = [f"-seed={seed}", f"-max_total_time={max(1, round(minutes * 60))}", f"-max_len={MAX_BYTES}"]
        limits += [f"-timeout={MAX_SECONDS}", f"-rss_limit_mb={MAX_MEMORY_MB}", "-print_final_stats=1"]
        command = [sys.executable, "-m", "tests.long.fuzz", _CHILD, target, *limits, f"-artifact_prefix={found}/"]
        response = subprocess.run(
            [*command, str(corpus)], capture_output=True, text=True, errors="replace", check=False
        )
        statistics = dict(_STATISTICS.findall(response.stderr))
        reached = [path.read_bytes() for path in corpus.iterdir()]
        if grow and response.returncode == 0:
            write_corpus(target, _worth_keeping(target, read_corpus(target) + reached))
        return Fuzzed(
            name=target,
            seeds=(seed,),
            inputs=int(statistics.get("number_of_executed_units", 0)),
            memory_mb=int(statistics.get("peak_rss_mb", 0)),
            corpus=len(reached),
            wrong=tuple(path.read_bytes().hex() for path in sorted(found.iterdir())),
            output=response.stderr[-4000:] if response.returncode else "",
        )


def summary(done: Sequence[Fuzzed]) -> Table:
    """A row for each target."""
    rows = table("target", "what it is fed", "seeds", "inputs", "of interest", "memory at most", "wrong")
    for each in done:
        wrong = "nothing" if each.is_sound else str(len(each.wrong) or "failed, see below")
        seeds = "-".join(dict.fromkeys((str(each.seeds[0]), str(each.seeds[-1]))))
        corpus = "" if each.corpus is None else f"{each.corpus:,}"
        memory = "" if each.memory_mb is None else f"{each.memory_mb:,} MB"
        rows.add_row(each.name, TARGETS[each.name], seeds, f"{each.inputs:,}", corpus, memory, wrong)
    return rows


def _worth_keeping(target: str, inputs: list[bytes]) -> list[bytes]:
    """Those that reach a line that none before them reaches, looked at from the shortest to the longest."""
    from tests.support.records import fuzz_targets

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
        from tests.support.records import fuzz_targets
    give = fuzz_targets.TARGETS[target]()
    atheris.Setup([sys.argv[0], *options], give)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
