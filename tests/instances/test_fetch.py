"""Fetching over a loopback server and from a folder: what arrives is right and whole, or a sentence says why not."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shardmark.instances import catalog
from shardmark.instances import fetch as fetching
from shardmark.instances.catalog import Entry, git_blob_sha1
from shardmark.instances.fetch import fetch

CONTENT = bytes(range(256)) * 1000


def entry(name: str, content: bytes = CONTENT) -> Entry:
    checksum = f"git-blob-sha1:{git_blob_sha1(content)}"
    return Entry(name, "intraop", f"files/{name}", checksum, 1.0, ("s",), repository="owner/repo", commit="abc")


class Server(BaseHTTPRequestHandler):
    """Serves OWNER/REPO/files/NAME; the name says how."""

    release = threading.Event()

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[1]
        if not self.path.startswith("/base/owner/repo/files/") or name == "missing":
            self.send_error(404)
            return
        self.send_response(200)
        if name != "chunkless":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if name == "cut":
            self.wfile.write(CONTENT[:1000])
        elif name == "hanging":
            self.wfile.write(CONTENT[:1000])
            self.wfile.flush()
            self.release.wait(30)
        elif name == "slow":
            for byte in CONTENT[:50]:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if self.release.wait(0.05):
                    break
        elif name == "wrong":
            self.wfile.write(CONTENT[::-1])
        else:
            self.wfile.write(CONTENT)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Server, "release", threading.Event())
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/base/"
        Server.release.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("SHARDMARK_MIRROR", raising=False)
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["whole", "chunkless"])
def test_a_fetched_file_is_cached_and_located(name, server, cache):
    messages: list[str] = []
    (outcome,) = fetch([entry(name)], server, messages.append)
    assert (outcome.id, outcome.error) == (name, "")
    assert outcome.path == catalog.locate(entry(name)) == cache / "owner/repo/files" / name
    assert outcome.path.read_bytes() == CONTENT
    assert messages == [f"{name}: fetched 0.2 MiB"]
    assert files(cache) == [f"owner/repo/files/{name}"]


def test_a_file_that_is_there_is_verified_and_not_fetched_again(server, cache):
    fetch([entry("whole")], server)
    messages: list[str] = []
    (outcome,) = fetch([entry("whole")], "http://127.0.0.1:9/nothing", messages.append)
    assert outcome.error == ""
    assert messages == ["whole: already there"]
    (cache / "owner/repo/files/whole").write_bytes(b"damaged")
    fetch([entry("whole")], server, messages.append)
    assert messages[1:] == ["whole: fetched 0.2 MiB"]
    assert (cache / "owner/repo/files/whole").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing", "expected the file, the server answered 404 Not Found"),
        ("wrong", "checksum: expected git-blob-sha1 "),
        ("cut", "expected the file (the connection ended after 1000 of 256000 bytes)"),
        ("hanging", "expected the file (timed out)"),
        ("slow", "expected the file (not complete after 1 s)"),
    ],
)
def test_a_failure_is_a_sentence_and_the_others_go_on(name, expected, server, cache, monkeypatch):
    def patience(seconds: float) -> None:
        monkeypatch.setattr(fetching, "SILENCE_S", seconds)
        monkeypatch.setattr(fetching, "TOTAL_S", seconds)

    patience(1.0 if name in ("hanging", "slow") else 60.0)
    bad, good = fetch([entry(name), entry("whole")], server, lambda _: patience(60.0))
    assert bad.path is None
    assert bad.error.startswith(f"{server}owner/repo/files/{name}: ")
    assert expected in bad.error
    assert good.error == ""
    assert files(cache) == ["owner/repo/files/whole"]


def test_a_server_that_sends_more_than_any_file_has_is_left(server, cache, monkeypatch):
    monkeypatch.setattr(fetching, "LARGEST", 1000)
    (outcome,) = fetch([entry("whole")], server)
    assert outcome.error.endswith("expected the file (more than 1000 bytes)")
    assert files(cache) == []


def test_no_server(cache):
    (outcome,) = fetch([entry("whole")], "http://127.0.0.1:9/nothing")
    assert "expected the file ([Errno 111] Connection refused)" in outcome.error
    (outcome,) = fetch([entry("whole")], "http://[nonsense")
    assert "expected the file (" in outcome.error


def test_without_a_mirror_the_public_address_is_asked(cache, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(fetching, "download", lambda address: asked.append(address) or CONTENT)
    fetch([entry("whole")])
    assert asked == ["https://raw.githubusercontent.com/owner/repo/abc/files/whole"]


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_folder_as_mirror(how, cache, tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    (mirror / "owner/repo/files").mkdir(parents=True)
    (mirror / "owner/repo/files/whole").write_bytes(CONTENT)
    if how == "environment":
        monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
    good, bad = fetch([entry("whole"), entry("other")], mirror if how == "argument" else None)
    assert good.path is not None
    assert good.path.read_bytes() == CONTENT
    assert bad.error.endswith("files/other: expected the file in the mirror (No such file or directory)")
    assert files(cache) == ["owner/repo/files/whole"]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, server):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "file"))
    (outcome,) = fetch([entry("whole")], server)
    assert "expected a folder that can be written (" in outcome.error
