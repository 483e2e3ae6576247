"""What a worker needs for a run: files, programs and solvers with the content that the campaign has."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from shardmark.harness.campaign.dask import files
from shardmark.harness.campaign.dask.files import FileCache
from shardmark.harness.campaign.dask.worker import MissingFile, Refused, RemoteOrder, ShardmarkPlugin
from shardmark.harness.campaign.jobs import Job
from shardmark.harness.sandbox.contract import Limits
from shardmark.solvers.registry import source_hash

SOLVERS = Path(__file__).parents[1] / "campaign_solvers.py"


@pytest.fixture
def plugin(tmp_path):
    plugin = ShardmarkPlugin("here", [0], SimpleNamespace(), "none")
    plugin.setup(SimpleNamespace(local_directory=str(tmp_path / "local"), name="w", address="a"))
    return plugin


def remote_order(job, **changes):
    return dataclasses.replace(RemoteOrder(job.order(), job.solver.hash, {}, "topic"), **changes)


def test_a_worker_asks_for_a_solver_s_files_and_refuses_other_versions(plugin, chain, quick, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine.py").write_bytes(SOLVERS.read_bytes())
    (there / "helper.py").write_text("X = 1\n")
    mine = {"file": str(there / "mine.py"), "hash": source_hash(there / "mine.py")}
    info = dataclasses.replace(quick, **mine)
    sent = remote_order(Job(info, chain, 0, Limits(1.0, 64.0)))
    assert plugin._prepared(sent).file == str(there / "mine.py")
    moved = dataclasses.replace(sent, order=dataclasses.replace(sent.order, file="/nowhere/mine.py"))
    with pytest.raises(MissingFile) as missing:
        plugin._prepared(moved)
    for name in ("mine.py", "helper.py"):
        for first, piece, last in files.pieces(there / name):
            plugin.files.add(f"{Path(str(missing.value)).parent}/{name}", "me", piece, first, last)
    found = Path(plugin._prepared(moved).file)
    assert source_hash(found) == info.hash
    found.with_name("helper.py").write_text("X = 2\n")  # as a solver could
    with pytest.raises(MissingFile):
        plugin._prepared(moved)


def test_a_worker_refuses_other_programs(plugin, chain, quick, tmp_path):
    sent = remote_order(Job(quick, chain, 0, Limits(1.0, 64.0)))
    program = tmp_path / "program"
    program.write_text("one")
    with pytest.raises(Refused, match=f"expected a file {program} with the same content"):
        plugin._prepared(dataclasses.replace(sent, programs={str(program): "0" * 64}))


def test_files_are_sent_in_pieces_and_noticed_when_they_change(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 4)
    original = tmp_path / "original"
    library = FileCache(tmp_path / "library")
    for content in (b"", b"abc", b"abcd", b"abcdefghi"):
        original.write_bytes(content)
        sent = list(files.pieces(original))
        assert [first for first, _, _ in sent] == [True] + [False] * (len(sent) - 1)
        assert [last for _, _, last in sent] == [False] * (len(sent) - 1) + [True]
        for first, piece, last in sent:
            assert library.find("a/b") is None or not first
            library.add("a/b", "me", piece, first, last)
        found = library.find("a/b")
        assert found.read_bytes() == content
        found.write_bytes(b"changed")
        assert library.find("a/b") is None
