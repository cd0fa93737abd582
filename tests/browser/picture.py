"""Save the pictures of the status page in the docs: ``python -m tests.browser.picture``."""

import tempfile
from pathlib import Path
from typing import Final

from tests.browser.chromium import browser
from tests.support.broker.status_page import filled_broker

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    """Save them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        filled_broker(Path(folder, "kafka-data")) as broker,
        browser(broker.status_page_url) as page,
    ):
        page.open("overview")
        page.until(lambda: len(page.cells(0)) == 7)
        page.save_picture(IMAGES / "status-page.png", 940)
        page.open("records?topic=views&format=json&limit=2")
        page.until(lambda: len(page.cells(1)) == 6)
        page.named("button", "99").click()
        page.until(lambda: bool(page.all("tr.detail pre")))
        page.save_picture(IMAGES / "status-page-records.png", 1140)


if __name__ == "__main__":
    main()
