"""How campaigns and workers reach a Dask scheduler: its address, TLS, versions, and how long they wait for it."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from distributed.comm import connect, get_address_host, parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.core import send_recv
from distributed.security import Security
from distributed.versions import VersionMismatchWarning, get_versions

from shardmark.instances import InputError

CONNECT_S = 10.0  # seconds within which a scheduler must accept a connection
ANSWER_S = 5.0  # seconds within which the scheduler or a worker must answer a call
ENCRYPTED = ("tls", "wss")  # schemes of addresses


def silence_dask() -> None:
    """Silence Dask's own log and warnings: our messages report the parts that matter."""
    for name in ("distributed", "distributed.client"):  # the loggers whose level Dask sets
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore", VersionMismatchWarning)


def check_address(scheduler: str) -> None:
    """Raise InputError unless Dask can read it as the address of a scheduler, by TCP if it has no scheme."""
    try:
        scheme, place = parse_address(scheduler)
        get_backend(scheme)
        machine, port = parse_host_port(place)
        if not machine or not 0 < port < 1 << 16:
            raise ValueError("no host, or no port from 1 to 65535")
    except (ValueError, ImportError) as error:
        raise InputError("scheduler", repr(scheduler), f"expected an address like tcp://HOST:8786 ({error})") from None


def connection_settings(scheduler: str, role: str) -> Mapping[str, Any]:
    """Return the TLS settings for connections of a client or worker; InputError if they do not fit the address."""
    check_address(scheduler)
    encrypted = parse_address(scheduler)[0] in ENCRYPTED
    certificates = f"distributed.comm.tls.ca-file, .{role}.cert and .{role}.key"
    try:
        settings: Mapping[str, Any] = Security().get_connection_args(role)
    except (OSError, TypeError, ValueError) as error:
        expected = f"expected readable certificates and valid settings as {certificates} ({error})"
        raise InputError("Dask's configuration", "distributed.comm", expected) from None
    if encrypted and settings["ssl_context"] is None:
        raise InputError("Dask's configuration", "distributed.comm.tls", f"expected {certificates} for {scheduler}")
    if settings["require_encryption"] and not encrypted:
        expected = "expected an address like tls://HOST:8786, as distributed.comm.require-encryption is set"
        raise InputError("scheduler", scheduler, expected)
    return settings


async def check_scheduler(scheduler: str, role: str) -> str:
    """Return the IP address by which this machine reaches a scheduler.

    InputError unless a scheduler answers and has our versions of Dask and Python.
    """
    settings = connection_settings(scheduler, role)
    with reaching(scheduler):
        async with asyncio.timeout(CONNECT_S + ANSWER_S):
            link = await connect(scheduler, timeout=CONNECT_S, **settings)
            try:
                found = await send_recv(link, op="versions")
                here = get_address_host(link.local_address)
            finally:
                link.abort()
    ours, theirs = main_versions(get_versions()), main_versions(found)
    if ours != theirs:
        raise InputError("scheduler", scheduler, f"expected {ours}, as here, found {theirs}")
    return here


def main_versions(found: Mapping[str, Any]) -> str:
    """Return the versions that must be the same everywhere, of those that Dask reports of a process."""
    packages = found["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    return f"dask {packages['dask']}, distributed {packages['distributed']} and Python {python}"


@contextmanager
def reaching(scheduler: str) -> Iterator[None]:
    """Raise InputError for any error while a scheduler is reached: what answers may not be one."""
    try:
        yield
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__:
            cause = cause.__cause__
        why = f" ({' '.join(str(cause).split())})" if str(cause) else ""
        scheme, _ = parse_address(scheduler)
        expected = f"expected a Dask scheduler that answers by {scheme} within {CONNECT_S:g} s{why}"
        raise InputError("scheduler", scheduler, expected) from None
