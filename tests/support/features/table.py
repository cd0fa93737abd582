"""Every option, column, error and behaviour of Spark's JVM connector, and what this one has beyond it.

The rows stand in `tests.support.features.rows`. Tests name what they show with ``@pytest.mark.feature("<id>")``;
`docs/features.py` makes docs/connector.md from both, and a row without a test is an error.
"""

from collections.abc import Mapping
from typing import Final

from tests.support.features.feature import Feature, Section
from tests.support.features.rows import beyond, reading, sink, source

SECTIONS: Final[tuple[Section, ...]] = (*source.SECTIONS, *reading.SECTIONS, *sink.SECTIONS, *beyond.SECTIONS)
FEATURES: Final[Mapping[str, Feature]] = {row.id: row for section in SECTIONS for row in section.features}
