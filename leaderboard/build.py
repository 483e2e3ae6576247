"""The static site: turns score tables into a folder of pages that opens from disk and needs no network.

Files are replaced one by one, each atomically: a reader during a build, or after a kill, finds complete pages whose
links lead to complete pages, see `publish`. Files in the folder that are not ours are never touched.
"""

from __future__ import annotations

import fcntl
import html
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from shardmark.harness.editions.comparing import Comparison
from shardmark.harness.results.ranking import Tables
from shardmark.instances import InputError
from shardmark.leaderboard import downloads, records_page
from shardmark.leaderboard.drawings.pictures import Pictures
from shardmark.leaderboard.explore import comparison, data_files, indexes
from shardmark.leaderboard.pages import failures, instance, overview, scores, solver, track
from shardmark.leaderboard.pages.site import Page, Site

STATIC = Path(__file__).resolve().parent / "static"
MARKER = ".shardmark-site"  # marks a folder as a site; a writer locks it
LISTED = ".shardmark-files"  # our files, one path per line: no other file is ever removed
STAGE = ".shardmark-new"  # staging folder for files before they are moved into place
ABOUT = f"Made by shardmark: it replaces and removes the files that {LISTED} lists, and leaves all others alone.\n"
DOCS = "docs"  # a folder of the site that `make docs` writes; pages link to it
REGRESSIONS = "regressions"  # a folder of the site that `shardmark.leaderboard.regressions` writes, which builds keep
HISTORY = f"{REGRESSIONS}/history.csv"  # its data
REPRODUCE = "reproduce"  # a folder of the site with the pages of `reproduction_page`, which builds keep and list
INDEX = "index.html"
#: The part of a page that holds its menu.
HEADER = re.compile(r'<header class="top">.*?</header>', re.DOTALL)

#: Functions that yield the pages of a site, one per kind of page.
WRITERS: tuple[Callable[[Site], Iterator[Page]], ...] = (
    overview.pages,
    failures.pages,
    scores.pages,
    track.pages,
    solver.pages,
    instance.pages,
    indexes.pages,
    records_page.pages,
    comparison.pages,
    downloads.pages,
)

File = tuple[str, str | bytes]  # path from the root of the site, and content


def build(
    tables: Tables,
    output: Path,
    pictures: Mapping[str, Pictures | str] | None = None,
    comparison: Comparison | None = None,
) -> Path:
    """Write the site into the folder ``output`` and return the path of its first page.

    ``pictures`` has drawings of a solution, or the reason why there are none, by checksum of the instance;
    ``comparison`` says what of the runs is of an edition.

    Obsolete pages of the last build are removed; pages of other commands get the new menu; files that are not ours
    stay. Nothing changes before all files are written, so a build that fails leaves the old site.
    Raises InputError for a folder that holds anything but a site, or cannot be written.
    """
    output = Path(output).resolve()
    with held(output):
        publish(output, _files(tables, pictures, output, comparison))
    return output / INDEX


def check(folder: Path) -> None:
    """Raise InputError if a place holds anything but a site."""
    if folder.exists() and not _ours(folder):
        raise InputError(folder, "", "expected a folder that is empty or holds an earlier leaderboard")


def require_writable(folder: Path) -> None:
    """Raise InputError if a place holds anything but a site or cannot hold one; leave nothing there."""
    try:
        check(folder)
        there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise unwritable(folder, error) from None


def unwritable(folder: Path, error: OSError) -> InputError:
    """Turn a failure to write the site into an InputError."""
    return InputError(folder, "", f"expected a folder that can be written ({error.strerror or error})")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a site while it is written to, and create it if need be; a second command waits for the first.

    Raises InputError for a place that holds anything but a site, or cannot be written.
    """
    try:
        check(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / MARKER).open("a", encoding="utf-8") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            if not marker.tell():
                marker.write(ABOUT)
            yield
    except OSError as error:
        raise unwritable(folder, error) from None


def _ours(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or {p.name for p in folder.iterdir()} <= {DOCS})


def reproductions(folder: Path) -> dict[str, str]:
    """Names and titles of the reproductions with pages in a site, sorted by name."""
    pages = sorted((folder / REPRODUCE).glob("*.html"), key=lambda page: page.stem)
    return {page.stem: _title(page.read_text(encoding="utf-8")) for page in pages if page.name != INDEX}


def has_regressions(folder: Path) -> bool:
    """Return True if a site has the page of the project's own times."""
    return all((folder / path).is_file() for path in (f"{REGRESSIONS}/{INDEX}", HISTORY))


def has_docs(folder: Path) -> bool:
    """Return True if a site has the documentation."""
    return (folder / DOCS / INDEX).is_file()


def menu(folder: Path) -> dict[str, str]:
    """Names and paths of the pages of tracks in a site, sorted by name."""
    pages = sorted((folder / "tracks").glob("*.html"))
    return {_title(page.read_text(encoding="utf-8")): f"tracks/{page.name}" for page in pages}


def _title(page: str) -> str:
    """The heading of a page, empty without one."""
    found = re.search(r"<h1>([^<]*)</h1>", page)
    return html.unescape(found[1]) if found else ""


def static() -> Iterator[File]:
    """Files that all pages need."""
    for path in STATIC.iterdir():
        if path.name != "preview.png":  # a picture of the site, for the README: see `make screenshots`
            yield f"static/{path.name}", path.read_bytes()


def _files(
    tables: Tables, pictures: Mapping[str, Pictures | str] | None, folder: Path, comparison: Comparison | None
) -> Iterator[File]:
    """Every file of the site: pages, static files, and the pages that builds keep, with the new menu."""
    tables = comparison.noted(tables) if comparison else tables
    yield from static()
    written = []
    for path, content in downloads.table_files(tables):
        written.append(path)
        yield path, content
    yield from data_files.files(tables)  # like the tables, before what all pages share takes memory
    kept_pages = {"regressions": has_regressions(folder), "docs": has_docs(folder)}
    site = Site(tables, reproductions(folder), pictures, comparison=comparison, **kept_pages)
    downloads.link(site, written)
    yield from records_page.solution_files(site)
    yield from downloads.files(site)
    header = ""
    for path, page in chain.from_iterable(pages(site) for pages in WRITERS):
        if path == f"{REPRODUCE}/{INDEX}" and (found := HEADER.search(page)):
            header = found[0]
        yield path, page
    kept = [f"{REPRODUCE}/{name}.html" for name in reproductions(folder)]
    if has_regressions(folder):
        kept.append(f"{REGRESSIONS}/{INDEX}")
        yield HISTORY, (folder / HISTORY).read_bytes()
    for path in kept:
        page = (folder / path).read_text(encoding="utf-8")
        if HEADER.search(page):  # otherwise the page is not ours
            yield path, HEADER.sub(lambda _: header, page, count=1)


def publish(folder: Path, files: Iterable[File], *, keep: bool = False) -> None:
    """Put files into a site; unless ``keep``, remove the other files of earlier builds.

    All files are written to a staging folder first. Then they are moved into place: new paths first, as no
    existing page links to them; then existing paths, the first page last. The target of every link exists all the
    time. Files that no new page links to are removed last. The list names a file from before it exists until after it
    is gone, so that files left by a killed build are known to be ours.
    """
    stage = folder / STAGE
    shutil.rmtree(stage, ignore_errors=True)  # left by a killed build
    try:
        paths = _write(stage / "files", files)
        before = _listed(folder)
        _list(folder, {*before, *paths})
        for parent in {(folder / path).parent for path in paths}:
            parent.mkdir(parents=True, exist_ok=True)
        for path in sorted(paths, key=lambda path: (path == INDEX, (folder / path).exists())):
            os.replace(stage / "files" / path, folder / path)
        if not keep:
            _remove(folder, before.difference(paths))
            _list(folder, paths)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _write(folder: Path, files: Iterable[File]) -> list[str]:
    """Write files into a folder that does not exist yet; return their paths."""
    paths = []
    for path, content in files:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        paths.append(path)
    return paths


def _listed(folder: Path) -> set[str]:
    """Paths of our files in a site; paths that lead out of it are ignored."""
    try:
        listed = (folder / LISTED).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    return {path for path in listed if path and ".." not in Path(path).parts and not Path(path).is_absolute()}


def _list(folder: Path, paths: Collection[str]) -> None:
    """Write the list of our files."""
    staged = folder / STAGE / LISTED
    staged.write_text("".join(f"{path}\n" for path in sorted(paths)), encoding="utf-8")
    os.replace(staged, folder / LISTED)


def _remove(folder: Path, paths: Iterable[str]) -> None:
    """Remove files, and folders that become empty."""
    for path in sorted(paths):
        file = folder / path
        file.unlink(missing_ok=True)
        for parent in Path(path).parents[:-1]:
            with suppress(OSError):  # it still has files
                (folder / parent).rmdir()
