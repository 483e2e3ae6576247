"""Take pictures of each kind of page of a site, on a phone, a tablet and a screen, light and dark.

``python screenshots.py SITE FOLDER``; `make screenshots` takes those of the site that `make benchmark` built. The
README's picture, ``leaderboard/static/preview.png``, is a copy of ``FOLDER/preview.png``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTHS = (390, 820, 1440)  # pixels: a phone, a tablet, a screen
SCHEMES = ("light", "dark")
PREVIEW = 1200  # pixels, the width of the picture for the README: two columns


def kinds(site: Path) -> Iterator[Path]:
    """Yield the pages at the top, every track, and the first solver and instance of each track."""
    yield from sorted(site.glob("*.html"))
    yield from (page for page in [site / "data/index.html"] if page.is_file())
    yield from sorted(site.glob("tracks/*.html"))
    for folder in sorted([*site.glob("solvers/*/"), *site.glob("instances/*/")]):
        yield from sorted(folder.glob("*.html"))[:1]


def main(site: str, folder: str) -> None:
    """Write FOLDER/PAGE-WIDTH-SCHEME.png for each page, and FOLDER/preview.png of the rankings on the first one."""
    root, out = Path(site).resolve(), Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, scheme in product(WIDTHS, SCHEMES):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for path in kinds(root):
                page.goto(path.as_uri())
                page.wait_for_timeout(300)  # comparisons are drawn after their data is loaded
                name = "-".join(path.relative_to(root).with_suffix("").parts)
                page.screenshot(path=out / f"{name}-{width}-{scheme}.png", full_page=True)
            page.close()
        page = browser.new_page(viewport={"width": PREVIEW, "height": 900})
        page.goto((root / "index.html").as_uri())
        foot = page.evaluate("document.querySelector('.panels').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": PREVIEW, "height": foot + 2}
        page.screenshot(path=out / "preview.png", full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
