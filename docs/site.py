"""Build the site in ``build/docs``, one directory for each version: ``python -m docs.site``, ``make docs``.

Warnings are errors, among them links to pages and sections that are not there. A list of the versions that are in the
directory goes beside them, for the menu of versions on every page.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

from spark_kafka_native import __version__

SOURCE: Final = Path(__file__).parent
SITE: Final = SOURCE.parent / "build" / "docs"


def main() -> int:
    """Build the site; Sphinx's exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=SITE)
    directory: Path = parser.parse_args().directory
    pages = directory / __version__
    status = build_main(
        ["-q", "-W", "--keep-going", "-b", "html", "-d", str(directory / ".doctrees"), str(SOURCE), str(pages)]
    )
    if status == 0:
        _list_versions(directory)
        print(pages / "index.html")
    return status


def _list_versions(directory: Path) -> None:
    versions = sorted((path.parent.name for path in directory.glob("*/index.html")), key=_numbers, reverse=True)
    entries = [
        {"version": version, "url": f"../{version}/", "preferred": version == versions[0]} for version in versions
    ]
    (directory / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    home = f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">\n'
    (directory / "index.html").write_text(home, encoding="utf-8")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


if __name__ == "__main__":
    sys.exit(main())
