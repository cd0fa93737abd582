"""Command lines that suggest the nearest option for one that they do not know."""

import argparse
from collections.abc import Sequence
from typing import Any

from spark_kafka_native.protocol.nearest import did_you_mean


class SuggestingParser(argparse.ArgumentParser):
    """As argparse; the error for ``--topcs`` ends with ``did you mean --topics?``."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # overloads
        """As argparse; ends the program with status 2 for options that are not known."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options = [each.partition("=")[0] for each in unknown if each.startswith("-")]
            # argparse names what follows an unknown option, too.
            suggestion = did_you_mean(options[0], self._option_string_actions) if options else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion}")
        return found
