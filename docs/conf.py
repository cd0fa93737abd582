"""Sphinx's configuration: ``make docs`` builds the site from the pages in this directory."""

from pathlib import Path

from sphinx.application import Sphinx

import spark_kafka_native

project = "spark-kafka-native"
copyright = "the authors of spark-kafka-native"  # noqa: A001  # Sphinx's name
version = release = spark_kafka_native.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
nitpicky = True
# Types of other packages, and those that are no public names.
nitpick_ignore_regex = [
    (
        "py:class",
        r"(collections|os|pathlib|pyarrow|pyspark|rich|threading|uuid|spark_kafka_native\._|broker_embedded\._)\..*|.*\._.*",
    ),
    ("py:class", r"SparkSession|StructType|PyKafka(Stream)?(Reader|Writer)"),
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "pydata_sphinx_theme"
html_title = f"{project} {version}"
html_show_sourcelink = False
html_sidebars = {"**": ["globaltoc.html"]}  # every page in the menu, instead of its section
html_theme_options = {
    "navbar_center": [],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "switcher": {"json_url": "../versions.json", "version_match": version},
    "check_switcher": False,  # docs/site.py makes it after the pages
    "navbar_end": ["version-switcher", "theme-switcher"],
}

_PAGES_OF_ROOT = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md", "DESIGN.md": "design.md"}
"""Files of the repository's root, and the pages that include them."""


def setup(app: Sphinx) -> None:
    """Let links between files of the root lead to their pages."""
    app.connect("include-read", _link_pages)


def _link_pages(_app: Sphinx, _path: Path, _page: str, content: list[str]) -> None:
    for file, page in _PAGES_OF_ROOT.items():
        content[0] = content[0].replace(f"]({file})", f"]({page})")
