"""Reaching a scheduler: addresses, IPv6, TLS, Dask's configuration, versions."""

from __future__ import annotations

import asyncio
import socket

import dask
import pytest
from distributed import Scheduler
from distributed.versions import get_versions

from shardmark.cli.arguments import main
from shardmark.cli.commands.campaigns import _with_dask
from shardmark.harness.campaign.dask import scheduler as module
from shardmark.harness.campaign.dask import serving
from shardmark.harness.campaign.dask.scheduler import check_scheduler, connection_settings
from shardmark.instances import InputError


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "address",
    [
        *("nonsense", "", "127.0.0.1", "tcp://127.0.0.1", "tcp://::1:8786"),
        *("http://127.0.0.1:18999", "ftp://x:1", "tcp://:1", "tcp://x:99999"),
    ],
)
def test_an_invalid_address_is_one_sentence_and_leaves_no_folder(chain, tmp_path, capsys, address):
    results = tmp_path / "results"
    command = ["run", "--instance", str(chain.path), "--solver", "simple", "--results", str(results)]
    assert main([*command, "--executor", "dask", "--scheduler", address]) == 2
    error = capsys.readouterr().err
    assert f"scheduler: {address!r}: expected an address like tcp://HOST:8786" in error
    assert error.count("\n") == 1
    assert not results.exists()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_worker_joins_and_listens_by_ipv6(grid):
    async def story():
        async with Scheduler(host="[::1]", port=0, dashboard_address=":0") as scheduler:
            assert scheduler.address.startswith("tcp://[::1]:")
            worker = await serving.join(scheduler.address, grid.plugin("six"))
            assert list(scheduler.workers) == [worker.address]
            assert worker.address.startswith("tcp://[::1]:")
            await serving.leave(worker)

    grid.sync(story)


@pytest.mark.parametrize("role", ["client", "worker"])
def test_tls_that_does_not_fit_the_address_or_cannot_be_read_is_one_sentence(tmp_path, role):
    def refused(address, expected, **settings):
        with (
            dask.config.set({f"distributed.comm.{name}": value for name, value in settings.items()}),
            pytest.raises(InputError) as error,
        ):
            connection_settings(address, role)
        assert expected in str(error.value)
        assert "\n" not in str(error.value)

    refused("tls://x:1", f"expected distributed.comm.tls.ca-file, .{role}.cert and .{role}.key for tls://x:1")
    refused("tcp://x:1", "expected an address like tls://HOST:8786", **{"require-encryption": True})
    nowhere = str(tmp_path / "nowhere.pem")
    files = {f"tls.{name}": nowhere for name in ("ca-file", f"{role}.cert", f"{role}.key")}
    refused("tls://x:1", "expected readable certificates and valid settings", **files)
    refused("tcp://x:1", "expected readable certificates and valid settings", **{"tls.min-version": 9})


def test_a_broken_dask_configuration_is_one_sentence():
    with pytest.raises(InputError) as error, _with_dask():
        raise ValueError("A dask config file at 'x.yaml' is malformed\n\n  line 1:\n    a: [")  # as Dask's import does
    assert str(error.value) == (
        "Dask's configuration: expected valid YAML (A dask config file at 'x.yaml' is malformed line 1: a: [)"
    )


@pytest.mark.parametrize("package", ["dask", "distributed", "python"])
def test_a_scheduler_with_other_versions_is_one_sentence(grid, monkeypatch, package):
    ours = get_versions()
    theirs = {**ours, "packages": {**ours["packages"], package: "3.0.0"}}
    monkeypatch.setattr(module, "get_versions", lambda: theirs)
    with pytest.raises(InputError, match=r"expected .*\b3\.0(\.0)?\b.*, as here, found"):
        asyncio.run(check_scheduler(grid.address, "client"))


def test_other_releases_of_python_and_of_small_packages_are_accepted(grid, monkeypatch):
    ours = get_versions()
    python = ".".join(ours["packages"]["python"].split(".")[:2])
    theirs = {**ours, "packages": {**ours["packages"], "python": f"{python}.99.final.0", "toolz": "0.0"}}
    monkeypatch.setattr(module, "get_versions", lambda: theirs)
    assert asyncio.run(check_scheduler(grid.address, "client")) == "127.0.0.1"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9\r\n", None])
def test_what_is_no_scheduler_is_one_sentence(monkeypatch, answer):
    """Nobody listens (None), a program hangs up, or answers something else."""
    monkeypatch.setattr(module, "CONNECT_S", 0.3)
    monkeypatch.setattr(module, "ANSWER_S", 0.3)

    async def story():
        async def serve(_, writer):
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if answer is None:
            server.close()
            await server.wait_closed()
        with pytest.raises(InputError, match=r"expected a Dask scheduler that answers by tcp within 0\.3 s") as error:
            await check_scheduler(f"tcp://127.0.0.1:{port}", "client")
        server.close()
        return str(error.value)

    assert "\n" not in asyncio.run(story())
