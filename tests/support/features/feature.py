"""One line of the table that compares this connector with the JVM connector, feature by feature."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest


@dataclass(frozen=True, slots=True)
class Feature:
    """An option, column, error or behaviour. Tests name the ones that they show: ``@pytest.mark.feature("<id>")``."""

    id: str
    """Stable and unique: what marks name."""
    feature: str
    """What a user calls it."""
    jvm: str
    """What Spark's JVM connector does."""
    ours: str = "the same"
    """What ``pykafka`` does."""
    api: str = ""
    """Where Spark's Python Data Source API forbids what the JVM connector does: what to do in its place."""


@dataclass(frozen=True, slots=True)
class Section:
    """Features that stand in one table of the page."""

    title: str
    features: tuple[Feature, ...]


class Shows(Protocol):
    """A case of a parametrised test."""

    @property
    def shows(self) -> str:
        """The ids of the features that it shows, separated by spaces."""


def showing(*values: Any, shows: str) -> Any:
    """The values of one case of a parametrised test, marked with the features that this case shows."""
    return pytest.param(*values, marks=pytest.mark.feature(*shows.split()))


def by_name(cases: Mapping[str, Shows]) -> list[Any]:
    """The names of cases as parameters of a test, each marked with what it shows."""
    return [showing(name, shows=case.shows) for name, case in cases.items()]
