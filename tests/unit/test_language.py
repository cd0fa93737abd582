"""The words that code, tests and documentation of this repository do not use, each with the words to write instead."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

INSTEAD: Final = {
    r"(?<!look-)behind": "after (in a log or list), below (an offset), lag",
    r"troubles?": "error, failure",
    r"(goes|go|went|going|gone) wrong": "fails",
    r"told": "configured, sent, given, notified",
    r"spell(s|ed|ing|ings)?|spelt": "written as, name, form",
    r"said to": "configured to",
    r"(goes|go|went|going|gone) on": "continues, resumes at",
    r"asked for": "requested, the request",
    r"somebody|someone": "another client, the member",
    r"nobody|no one": "no client, no member",
    r"whoever|whomever": "the client that, the caller",
    r"(its|their|whose|next|a) turns?": "per-key lock, order",
    r"stretch(es|ed)?": "range",
    r"roads?": "path",
    r"(its|their|the|whose|own) reach": "range, next offset",
    r"lets? (it |them )?be": "ignored, kept",
    r"(taken|takes?|took) away": "deleted, removed",
    r"put right|puts right|mend(s|ed|ing)?": "repaired",
    r"anew": "again, recreated",
    r"houses?|organs?|doors?|voices?|rehears\w*": "the name of the module or the interface",
    r"own words?|a word of|by word": "text, name, the exact message",
    r"plainly|of late|lest|thereof": "plain English",
}
"""Regular expressions of whole words; an underscore counts as a blank, so that names are read, too."""

READ: Final = (
    "benchmarks",
    "broker_embedded",
    "build_backend",
    "docs",
    "jobs",
    "notebooks",
    "release",
    "spark_kafka_native",
    "tests",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "DESIGN.md",
    "Makefile",
    "README.md",
    "pyproject.toml",
    "setup.py",
)

ROOT: Final = Path(__file__).parents[2]
_SUFFIXES: Final = {".py", ".pyx", ".pxd", ".pyi", ".md", ".ipynb", ".toml", ".sh", ".js", ".html", ".css"}
_ANY: Final = re.compile("|".join(rf"\b(?P<w{n}>{words})\b" for n, words in enumerate(INSTEAD)), re.IGNORECASE)


def text_files(name: str) -> list[Path]:
    """A file, or the text files below a folder, without this file."""
    path = ROOT / name
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*")) if file.suffix in _SUFFIXES and file != Path(__file__)]


def findings(path: Path) -> Iterator[str]:
    """``file:line: "word": what to write instead`` for every word of the list."""
    text = path.read_text(encoding="utf-8").replace("_", " ")
    for number, line in enumerate(text.split("\n"), 1):
        for found in _ANY.finditer(line):
            instead = list(INSTEAD.values())[int(str(found.lastgroup)[1:])]
            yield f'{path.relative_to(ROOT)}:{number}: "{found.group()}": {instead}'


@pytest.mark.parametrize("name", READ)
def test_no_word_of_the_list_is_used(name: str) -> None:
    files = text_files(name)
    assert files
    assert list(chain.from_iterable(map(findings, files))) == []
