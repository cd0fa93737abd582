"""What tests found out, apart from passing or failing, for the summary at the end of a run."""

from collections.abc import Callable, Iterable

import pytest

Report = Callable[[str, Iterable[str]], None]
"""`report(title, lines)` shows lines under a title after the run, whatever its outcome."""

FINDINGS = pytest.StashKey[dict[str, list[str]]]()
