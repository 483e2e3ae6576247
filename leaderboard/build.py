"""The static site: turns score tables into a folder of pages that opens from disk and needs no network."""

from __future__ import annotations

import html
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.results.ranking import InputError, Tables
from leaderboard.pages import Site
from leaderboard.report import Schedule, Split

STATIC = Path(__file__).resolve().parent / "static"
MARKER = ".shardmark-site"  # a folder with this file in it is ours to replace
ASV = "asv"  # a folder of the site that somebody else writes: kept, and linked to
REPRODUCE = "reproduce"  # a folder of the site whose pages `leaderboard.reproduction_page` writes: kept, and listed
#: The part of a page that holds its menu.
HEADER = re.compile(r'<header class="top">.*?</header>', re.DOTALL)


def build(tables: Tables, output: Path, pictures: Mapping[str, Split | Schedule | str] | None = None) -> Path:
    """Write the site into the folder ``output`` and return the path of its first page.

    ``pictures`` are drawings of solutions, or words for why there is none, by the checksums of instances.

    The folder is replaced as a whole once everything is written, so a build that fails leaves the old site; its
    ``asv`` folder and its reproductions are kept. Raises InputError for a folder that holds anything else, or cannot
    be written.
    """
    output = Path(output).resolve()
    check(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as holder:
            new = Path(holder) / "new"
            site = Site(tables, reproductions(output), pictures, asv=has_asv(output))
            _write(new, site.pages())
            _swap(new, output, Path(holder) / "old")
        _unify(output / REPRODUCE)
    except OSError as error:
        raise unwritable(output, error) from None
    return output / "index.html"


def check(folder: Path) -> None:
    """InputError for a place that holds anything but a site."""
    if folder.exists() and not _ours(folder):
        raise InputError(folder, "", "expected a folder that is empty or holds an earlier leaderboard")


def require_writable(folder: Path) -> None:
    """InputError for a place that holds anything but a site, or where none can be written; nothing is left there."""
    try:
        check(folder)
        there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise unwritable(folder, error) from None


def unwritable(folder: Path, error: OSError) -> InputError:
    """What a failure to write a site says."""
    return InputError(folder, "", f"expected a folder that can be written ({error.strerror or error})")


def _ours(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or {p.name for p in folder.iterdir()} <= {ASV})


def reproductions(folder: Path) -> dict[str, str]:
    """The reproductions that a site has pages of: names and titles, in the order of names."""
    pages = sorted((folder / REPRODUCE).glob("*.html"), key=lambda page: page.stem)
    return {page.stem: _title(page.read_text(encoding="utf-8")) for page in pages if page.name != "index.html"}


def has_asv(folder: Path) -> bool:
    """Whether a site has pages of somebody else's on the speed of its parts."""
    return (folder / ASV / "index.html").is_file()


def menu(folder: Path) -> dict[str, str]:
    """The pages of tracks that a site has: their names and paths, in the order of names."""
    pages = sorted((folder / "tracks").glob("*.html"))
    return {_title(page.read_text(encoding="utf-8")): f"tracks/{page.name}" for page in pages}


def _title(page: str) -> str:
    """The heading of a page, empty without one."""
    found = re.search(r"<h1>([^<]*)</h1>", page)
    return html.unescape(found[1]) if found else ""


def furnish(folder: Path) -> None:
    """Add what all pages need, in place of what an older version left, and mark the folder as ours to replace."""
    unwanted = shutil.ignore_patterns("preview.png")  # a picture of the site
    shutil.copytree(STATIC, folder / "static", ignore=unwanted, dirs_exist_ok=True)
    (folder / MARKER).write_text("Made by shardmark; the next build replaces this folder.\n", encoding="utf-8")


def _write(folder: Path, pages: Iterable[tuple[str, str]]) -> None:
    folder.mkdir()
    for path, page in pages:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
    furnish(folder)


def _swap(new: Path, output: Path, old: Path) -> None:
    """Put ``new`` in the place of ``output``, which moves to ``old``; on failure all is as before."""
    if not output.exists():
        os.rename(new, output)
        return
    kept = [ASV, *(f"{REPRODUCE}/{name}.html" for name in reproductions(output))]
    os.rename(output, old)
    try:
        _move(kept, old, new)
        os.rename(new, output)
    except OSError:
        _move(kept, new, old)
        os.rename(old, output)
        raise


def _unify(folder: Path) -> None:
    """Give the pages of reproductions the menu of the page that lists them."""
    found = HEADER.search((folder / "index.html").read_text(encoding="utf-8"))
    for page in folder.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if found and text != (now := HEADER.sub(lambda _: found[0], text, count=1)):
            put(page, now)


def put(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def _move(names: Iterable[str], source: Path, target: Path) -> None:
    """Move what is there of some files and folders."""
    for name in names:
        if (source / name).exists():
            os.rename(source / name, target / name)
