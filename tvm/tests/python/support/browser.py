# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that shows pages of this machine: clicks, keys and screenshots for tests."""

import base64
import contextlib
import shutil

import pytest

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # as root there is none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextlib.contextmanager
def browser(downloads):
    """A driver whose downloads go to a folder; the test is skipped where there is no Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("Chromium and its driver are not installed (Debian: chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for switch in _SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    chrome = webdriver.Chrome(options=options, service=service)
    try:
        chrome.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
        )
        chrome.set_script_timeout(60)
        yield chrome
    finally:
        chrome.quit()


def set_screen(chrome, width, height=900, scheme="light"):
    """A window of this size, with the system's colours."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    still = {"name": "prefers-reduced-motion", "value": "reduce"}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature, still]})


def save_screenshot(chrome, path):
    """The window as PNG."""
    taken = chrome.execute_cdp_cmd("Page.captureScreenshot", {})
    path.write_bytes(base64.b64decode(taken["data"]))
