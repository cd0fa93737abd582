"""Debian's chromium for tests of the status page: `apt install chromium chromium-driver`."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

_WAIT_S: Final = 30
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # for root, as in containers; it opens pages of the test's own broker only
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--window-size=1300,1000",
)


class Browser:
    """One window, at one status page."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self._driver = driver
        self._url = url

    def open(self, place: str) -> None:
        """Load the page at a place, such as ``topics?contains=a``."""
        self._driver.get("about:blank")
        self._driver.get(f"{self._url}#/{place}")

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a CSS selector."""
        found: list[WebElement] = self._driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str) -> WebElement:
        """The first element of a CSS selector, once it exists."""
        self.until(lambda: bool(self.all(selector)))
        return self.all(selector)[0]

    def named(self, tag: str, text: str) -> WebElement:
        """The first element with a text, once it exists."""
        path = f"//{tag}[normalize-space()='{text}']"
        self.until(lambda: bool(self._driver.find_elements(By.XPATH, path)))
        return self._driver.find_element(By.XPATH, path)

    def field(self, label: str) -> WebElement:
        """The field with a label, once it exists."""
        path = f"//label[starts-with(normalize-space(), '{label}')]//*[self::input or self::select or self::textarea]"
        self.until(lambda: bool(self._driver.find_elements(By.XPATH, path)))
        return self._driver.find_element(By.XPATH, path)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raises TimeoutException."""
        WebDriverWait(self._driver, _WAIT_S, poll_frequency=0.05).until(lambda _: condition())

    def cells(self, column: int) -> list[str]:
        """The texts of a column of the first table."""
        rows = "[...document.querySelector('main table')?.tBodies[0].rows ?? []]"
        cells = f"{rows}.filter((row) => row.className !== 'detail').map((row) => row.cells[{column}].innerText)"
        found: list[str] = self._driver.execute_script(f"return {cells}")
        return found

    def run(self, script: str) -> Any:
        """The result of a script in the page."""
        return self._driver.execute_script(script)

    @property
    def progress(self) -> str:
        """The state of a search for records; empty if there is none."""
        found = self.all("main p [role=status]")
        return found[0].text if found else ""

    @property
    def title(self) -> str:
        """The title of the document."""
        title: str = self._driver.title
        return title

    @property
    def errors(self) -> list[str]:
        """Messages of the console: errors of scripts, blocked loads, failed requests."""
        entries: list[dict[str, str]] = self._driver.execute("getLog", {"type": "browser"})["value"]
        return [entry["message"] for entry in entries]

    def save_picture(self, path: Path, height: int) -> None:
        """Save the window as a PNG file, with this height."""
        self._driver.set_window_size(1300, height)
        self._driver.save_screenshot(str(path))


@contextlib.contextmanager
def browser(url: str) -> Iterator[Browser]:
    """A browser at the status page with this URL."""
    program = shutil.which("chromedriver")
    assert program is not None, "chromedriver is not installed: apt install chromium chromium-driver"
    options = webdriver.ChromeOptions()
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program))
    try:
        yield Browser(driver, url)
    finally:
        driver.quit()
