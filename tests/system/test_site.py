"""The site of the documentation: it is built without warnings, and has every page and every public name."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import broker_embedded.testing
import spark_kafka_native.confluent
from spark_kafka_native import __version__

ROOT = Path(__file__).parents[2]
MODULES = (spark_kafka_native, spark_kafka_native.confluent, broker_embedded.testing)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.site", "--directory", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == f"{directory / __version__ / 'index.html'}\n"
    return directory


def test_every_page_is_there_and_in_the_menu(site: Path) -> None:
    menu = (site / __version__ / "index.html").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert (site / __version__ / f"{page.stem}.html").is_file()
        assert page.stem == "index" or f'href="{page.stem}.html"' in menu


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    reference = (site / __version__ / "api.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<dt class="[^"]*" id="([\w.]+)"', reference))
    names = {f"{module.__name__}.{name}" for module in MODULES for name in module.__all__ if name != "__version__"}
    assert names - described == set()


def test_the_menu_of_versions_has_what_is_built(site: Path) -> None:
    (entry,) = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert entry == {"version": __version__, "url": f"../{__version__}/", "preferred": True}
    assert f"url={__version__}/index.html" in (site / "index.html").read_text(encoding="utf-8")
