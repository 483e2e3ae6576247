"""Tests for a whole site, and a way to kill its build at a chosen moment; standard library only."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shardmark.leaderboard.build import INDEX, LISTED, MARKER, STAGE

Files = Mapping[str, bytes]

#: Files of somebody else, everywhere in a site.
FOREIGN = {
    "CNAME": b"example.org\n",
    ".nojekyll": b"",
    "asv/index.html": b"speed",
    "asv/graphs/a.json": b"[1]",
    "notes/mine.txt": b"years of work",
    "static/logo.svg": b"<svg/>",
    "instances/mine.html": b"<h1>Mine</h1>",
    "instances/pipeline/mine.txt": b"mine",
    "reproduce/mine.html": b"<h1>Mine</h1>",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def tree(path: Path) -> ET.Element:
    """The elements of a page."""
    return ET.parse(path).getroot()


def words(element: ET.Element) -> str:
    """All text below an element, spaces made one."""
    return " ".join("".join(element.itertext()).split())


def of_class(page: ET.Element, name: str) -> list[ET.Element]:
    """Elements that have a class."""
    return [element for element in page.iter() if name in element.get("class", "").split()]


def sections(page: ET.Element, heading: str) -> list[ET.Element]:
    """Sections below the heading of an id."""
    return [element for element in page.iter("section") if element.get("aria-labelledby") == heading]


def broken_links(site: Path) -> list[str]:
    """Links and sources of a site's pages that lead nowhere."""
    broken = []
    for path in site.rglob("*.html"):
        for element in tree(path).iter():
            for target in filter(None, (element.get("href"), element.get("src"))):
                parts = urlsplit(target)
                if parts.path and not parts.scheme and not (path.parent / unquote(parts.path)).is_file():
                    broken.append(f"{path.relative_to(site)}: {target}")
    return broken


def add_foreign(site: Path) -> None:
    """Put the files of somebody else there."""
    for path, content in FOREIGN.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)


def files(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def own(site: Path) -> dict[str, bytes]:
    """The files that are listed as ours, as far as they are there."""
    listed = (site / LISTED).read_text().splitlines()
    return {path: (site / path).read_bytes() for path in listed if (site / path).exists()}


def problems(site: Path, versions: Sequence[Files], foreign: Files = FOREIGN) -> list[str]:
    """List what is wrong with a site whose files may be of any of some versions.

    Each file of ours has to be that of a version, whole; what links lead to from the first page has to be there; files
    of others have to be as they were.
    """
    there = files(site)
    found = [f"{path} is not as it was" for path, content in foreign.items() if there.get(path) != content]
    for path, content in there.items():
        ours = path not in foreign and path not in (MARKER, LISTED) and not path.startswith(STAGE)
        if ours and all(version.get(path) != content for version in versions):
            found.append(f"{path} is of no version")
    return found + [f"{page} leads to {target}, which is not there" for page, target in dead_links(there)]


def dead_links(there: Files) -> Iterator[tuple[str, str]]:
    """Page and target of every link that leads nowhere, on pages that can be reached from the first one."""
    seen, todo = {INDEX}, [INDEX]
    if INDEX not in there:
        yield "", INDEX
        return
    while todo:
        page = todo.pop()
        for link in re.findall(r'(?:href|src)="([^"]*)"', there[page].decode()):
            parts = urlsplit(link)
            if parts.scheme or not parts.path:
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(page), unquote(parts.path)))
            if target not in there:
                yield page, target
            elif target.endswith(".html") and target not in seen:
                seen.add(target)
                todo.append(target)


def forked(work: Callable[[], object], *, operation: int = 0, seconds: float = 0.0) -> int:
    """Exit status of a fork that works; killed before its so-manyth change of a file, or after some seconds."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if operation:
                sys.addaudithook(Countdown(operation))
            work()
            status = 0
        finally:
            os._exit(status)
    if seconds:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Countdown:
    """An audit hook: before the so-manyth change of a file, it kills its process."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if writes or event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            self.left -= 1
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
