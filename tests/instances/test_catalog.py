"""The catalog is complete and consistent, and names lead to verified files."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

from shardmark.instances import InputError, catalog, load, tracks
from shardmark.instances.files.jsonfile import read_bytes

ENTRIES = catalog.entries()
PUBLIC = [entry for entry in ENTRIES if not entry.embedded]


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """No mirror, and a cache that is empty."""
    monkeypatch.delenv("SHARDMARK_MIRROR", raising=False)
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_ids_are_unique():
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_entry_is_complete(entry):
    assert entry.track in tracks()
    assert entry.suites
    assert entry.note
    assert entry.time_limit_s > 0
    assert re.fullmatch("git-blob-sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64}", entry.checksum)
    assert entry.embedded or (re.fullmatch("[0-9a-f]{40}", entry.commit) and entry.licence)
    for key in ("best_cost", "lower_bound"):
        assert (key in entry.published) == (f"{key}_source" in entry.published)
    if {"best_cost", "lower_bound"} <= entry.published.keys():
        assert Fraction(entry.published["lower_bound"]) <= Fraction(entry.published["best_cost"])


def test_the_contest_is_whole():
    suites = catalog.suites()
    assert [entry.id for entry in suites["contest"]] == [f"contest-{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXY"]
    assert {entry.id[-1] for entry in suites["contest-public"]} == set("AGMSY")
    assert {entry.id[-1] for entry in suites["contest-private"]} == set("BCDEFHIJKLNOPQRTUVWX")
    assert {entry.time_limit_s for entry in suites["contest"]} == {60, 120, 180, 240, 300}


def test_mirrored_files_have_their_checksums(mirror):
    found = {entry.id: mirror / entry.place for entry in PUBLIC if (mirror / entry.place).is_file()}
    assert found
    assert {name: catalog.find(name).mismatch(path.read_bytes()) for name, path in found.items()} == dict.fromkeys(
        found, ""
    )


def test_the_quick_suites_are_quick_and_need_nothing_but_the_project():
    suites = catalog.suites()
    assert all(entry.embedded and 2 <= entry.time_limit_s <= 3 for entry in suites["standard"])
    assert all(entry.time_limit_s == 2 and not entry.trap for entry in suites["quick"])
    for name in ("quick", "smoke"):
        assert {entry.id for entry in suites[name]} < {entry.id for entry in suites["standard"]}
    for track in tracks():
        assert sum(entry.track == track for entry in suites["standard"]) >= 8
        assert 3 <= sum(entry.track == track for entry in suites["quick"]) <= 4
        assert sum(entry.track == track for entry in suites["smoke"]) == 2


def test_every_track_has_instances_for_the_conformance_check():
    suites = catalog.suites()
    for track in tracks():
        tiny = [entry for entry in suites["tiny"] if entry.track == track]
        assert len(tiny) == 4
        assert sum("best_cost" in entry.published for entry in tiny) >= 2
        assert [entry.embedded for entry in suites["deadline"] if entry.track == track] == [True]


def test_git_blob_id_is_that_of_git():
    assert catalog.git_blob_sha1(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert catalog.git_blob_sha1(b"what is up, doc?") == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"


def test_unknown_names_get_a_suggestion(bare):
    with pytest.raises(InputError, match=r"Contest-a: expected .*, did you mean 'contest-A'\?"):
        catalog.resolve("Contest-a")
    with pytest.raises(InputError, match="expected the id of an instance in the catalog, did you mean 'contest-B'"):
        catalog.find("contest-b")
    with pytest.raises(
        InputError, match=r"suite: 'contst': expected the name of a suite, did you mean 'contest'\? `shardm"
    ):
        catalog.suite("contst")
    with pytest.raises(InputError, match=r"^zzzzzz: expected a file or an id of the catalog$"):
        catalog.resolve("zzzzzz")
    with pytest.raises(InputError, match=r"expected a file or an id of the catalog$"):
        catalog.resolve("z" * 5000)


def test_a_file_is_taken_before_an_id(bare, monkeypatch):
    monkeypatch.chdir(bare)
    Path("contest-A").write_bytes(b"{}")
    assert catalog.resolve("contest-A") == (Path("contest-A"), None)


def test_a_folder_is_no_instance(bare):
    with pytest.raises(InputError, match="expected an instance file, found a folder"):
        catalog.resolve(str(bare))


def test_a_pipe_is_no_instance(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: expected a regular file, found a pipe or a device$"):
        catalog.resolve(str(tmp_path / "pipe"))


def test_without_a_file_the_sentence_says_how_to_get_it(bare):
    assert catalog.at_hand(catalog.find("contest-A")) is None
    with pytest.raises(InputError, match="contest-A: expected its file in the cache, run `shardmark fetch contest`"):
        catalog.resolve("contest-A")


@pytest.mark.parametrize("place", ["cache", "mirror"])
def test_a_wrong_file_is_refused(place, bare, monkeypatch):
    entry = catalog.find("contest-A")
    path = bare / place / entry.place
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    monkeypatch.setenv("SHARDMARK_MIRROR", str(bare / "mirror"))
    with pytest.raises(InputError, match=r"A\.json\.gz: checksum: expected git-blob-sha1 60fa9.*, found"):
        catalog.locate(entry)


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_local_mirror_serves_without_fetching(how, bare, monkeypatch):
    content = b"an instance"
    checksum = f"git-blob-sha1:{catalog.git_blob_sha1(content)}"
    entry = catalog.Entry("x", "intraop", "folder/x.json", checksum, 1.0, ("s",), repository="owner/repository")
    path = bare / "mirror/owner/repository/folder/x.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    mirror = bare / "mirror"
    if how == "environment":
        monkeypatch.setenv("SHARDMARK_MIRROR", str(mirror))
        assert catalog.locate(entry) == path
    else:
        assert catalog.locate(entry, mirror) == path


def test_the_cache_follows_the_environment(monkeypatch):
    monkeypatch.delenv("SHARDMARK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert catalog.cache_folder() == Path("/home/somebody/.cache/shardmark")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert catalog.cache_folder() == Path("/var/caches/shardmark")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")  # the specification has relative paths ignored
    assert catalog.cache_folder() == Path("/home/somebody/.cache/shardmark")
    monkeypatch.setenv("SHARDMARK_CACHE", "/elsewhere")
    assert catalog.cache_folder() == Path("/elsewhere")
    monkeypatch.setenv("SHARDMARK_CACHE", "here")
    assert catalog.cache_folder() == Path.cwd() / "here"


def test_a_user_without_a_home_is_told_to_name_a_cache(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("SHARDMARK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(
        InputError, match="SHARDMARK_CACHE: expected a folder for the cache, but this user has no home folder"
    ):
        catalog.cache_folder()


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.embedded], ids=lambda entry: entry.id)
def test_embedded_files_are_right(entry):
    path = catalog.locate(entry)
    assert entry.mismatch(read_bytes(path)) == ""
    instance = load(path, **entry.options)
    assert (instance.track, instance.name) == (entry.track, Path(entry.path).name.split(".")[0])
    for option, value in entry.options.items():
        assert getattr(instance, option) == value


def test_the_embedded_files_are_small_in_all():
    files = {catalog.locate(entry) for entry in ENTRIES if entry.embedded}
    assert sum(path.stat().st_size for path in files) < 2 * 2**20
