"""What pytest's JUnit files say of a run, test by test."""

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test, with the file that it stands in, and why it was skipped or failed."""

    file: str
    name: str
    outcome: Outcome
    seconds: float
    reason: str = ""
    features: str = ""
    """The ids that its marks name, separated by spaces."""

    @property
    def broker(self) -> str:
        """``bundled`` or ``apache``, for a test with a parameter for it; else nothing."""
        found = _BROKER.search(self.name)
        return found[1] if found else ""

    def within(self, title: str) -> Self:
        """This one, whose file is named with a title."""
        return dataclasses.replace(self, file=self.file + title)


_BROKER: Final = re.compile(r"[\[-](bundled|apache)\b")


def read_cases(path: Path) -> Iterator[Case]:
    """The tests in a file that ``pytest --junit-xml`` has written with ``-o junit_family=xunit1``."""
    for case in ET.parse(path).iter("testcase"):
        wrong = [*case.iter("failure"), *case.iter("error")]
        skipped = case.find("skipped")
        about = wrong[0] if wrong else skipped
        features = case.find("properties/property[@name='features']")
        yield Case(
            file=case.get("file", ""),
            name=case.get("name", ""),
            outcome=Outcome.FAILED if wrong else Outcome.SKIPPED if skipped is not None else Outcome.PASSED,
            seconds=float(case.get("time", 0)),
            reason=next(iter((about.get("message", "") if about is not None else "").splitlines()), ""),
            features=features.get("value", "") if features is not None else "",
        )
