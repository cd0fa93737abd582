"""Runs atheris, which steers inputs by the code that they reach, on one of the targets.

    python -m tests.long.fuzz_frames [--minutes 10] [--grow]

It needs ``atheris`` from PyPI. The corpus of tests/golden is where it starts; ``--grow`` adds the inputs that reach
what none did before, as few as will do. Exit status 1: an input was found that something is wrong with; it is printed
in hex, to be replayed by adding it to the corpus. Each run is a process of its own, because libFuzzer ends the one it
is in.
"""

import argparse
import importlib
import importlib.util
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.support.fuzz_corpus import MOST_BYTES, read_corpus, write_corpus

_CHILD: Final = "--child"
_PACKAGES: Final = ["broker_embedded", "spark_kafka_native"]
_CRASH_PREFIX: Final = "found-"


def main(target: str, arguments: Sequence[str] | None = None) -> int:
    """Fuzz one target from the command line; the exit status."""
    logging.disable(logging.CRITICAL)  # what is repaired is logged, and here everything is
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [_CHILD]:
        return _fuzz(target, given[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--grow", action="store_true", help="add what was found to be of interest to the corpus")
    options = parser.parse_args(given)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris")
        return 2
    return _run(target, options.minutes, grow=options.grow)


def _run(target: str, minutes: float, *, grow: bool) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        corpus, found = Path(scratch, "corpus"), Path(scratch, "found")
        corpus.mkdir()
        found.mkdir()
        for number, each in enumerate(read_corpus(target)):
            (corpus / f"kept-{number}").write_bytes(each)
        seconds = max(1, round(minutes * 60))
        limits = [f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", "-timeout=30", "-rss_limit_mb=4096"]
        prefix = f"-artifact_prefix={found}/{_CRASH_PREFIX}"
        status = _child(target, [*limits, prefix, "-print_final_stats=1", str(corpus)])
        for crash in sorted(found.iterdir()):
            print(f"{crash.name}: {crash.read_bytes().hex()}")
        if grow and status == 0:
            inputs = read_corpus(target) + [path.read_bytes() for path in corpus.iterdir()]
            print(f"the corpus has {write_corpus(target, _worth_keeping(target, inputs))} inputs now")
        return 1 if status else 0


def _worth_keeping(target: str, inputs: list[bytes]) -> list[bytes]:
    """Those that reach a line that none before them reaches, looked at from the shortest to the longest."""
    from tests.support.fuzz_targets import TARGETS

    run, seen, kept = TARGETS[target](), set[tuple[str, int]](), list[bytes]()
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
            run(each)
        finally:
            sys.settrace(None)
        if not reached <= seen:
            seen |= reached
            kept.append(each)
    return kept


def _child(target: str, options: Sequence[str]) -> int:
    command = [sys.executable, "-m", f"tests.long.fuzz_{target}", _CHILD, *options]
    return subprocess.run(command, check=False).returncode


def _fuzz(target: str, options: Sequence[str]) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_PACKAGES):
        from tests.support.fuzz_targets import TARGETS
    run = TARGETS[target]()
    atheris.Setup([sys.argv[0], *options], run)
    atheris.Fuzz()
    return 0
