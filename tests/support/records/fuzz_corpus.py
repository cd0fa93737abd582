"""Inputs for fuzzers that were of interest once: a file per target in tests/golden/fuzz, an input in hex per line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).parents[2] / "golden" / "fuzz"
MAX_INPUTS: Final = 400
MAX_BYTES: Final = 400


def read_corpus(target: str) -> list[bytes]:
    """The inputs of a target."""
    path = DIRECTORY / f"{target}.hex"
    return [bytes.fromhex(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_corpus(target: str, inputs: Iterable[bytes]) -> int:
    """Keep these, the short ones first and not too many; how many."""
    kept = sorted({each for each in inputs if 0 < len(each) <= MAX_BYTES}, key=lambda each: (len(each), each))
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / f"{target}.hex").write_text("".join(f"{each.hex()}\n" for each in kept[:MAX_INPUTS]))
    return min(len(kept), MAX_INPUTS)
