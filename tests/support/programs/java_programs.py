"""Java programs of one file, compiled here, which answer lines with lines."""

import base64
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.programs import maven, toolchains


def java_responses(name: str, lines: Iterable[str] = (), *arguments: str, jars: Sequence[Path] = ()) -> list[str]:
    """What a program of this directory prints when it is given lines. Raises ToolMissing or MavenError."""
    classes = toolchains.java_classes(name, [Path(__file__).with_name(f"{name}.java")], jars)
    done = subprocess.run(
        [maven.java(), "-cp", os.pathsep.join(map(str, (classes, *jars))), name, *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def pattern_responses(
    package: str, method: str, names: str, expressions: Iterable[str], jars: Sequence[Path] = ()
) -> list[str]:
    """For each regular expression a digit per name, 1 if the library's matcher says so, or "no" and a reason."""
    encoded = (base64.b64encode(text.encode()).decode() for text in expressions)
    return java_responses("JavaPatterns", [names, *encoded], package, method, jars=jars)
