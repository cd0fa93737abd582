"""One line of the table that compares this connector with the JVM connector, feature by feature."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """An option, column, error or behaviour. Tests name the ones that they show: ``@pytest.mark.feature("<id>")``."""

    id: str
    """Stable and unique: what marks name."""
    feature: str
    """What a user calls it."""
    jvm: str
    """What Spark's JVM connector does."""
    ours: str
    """What ``pykafka`` does; ``the same`` where there is nothing to tell."""
    api: str = ""
    """Where Spark's Python Data Source API forbids what the JVM connector does: what to do in its place."""


@dataclass(frozen=True, slots=True)
class Section:
    """Features that stand in one table of the page."""

    title: str
    features: tuple[Feature, ...]
