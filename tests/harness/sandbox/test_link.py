"""News of a run under way: what the client asks for, and nothing that could make the clock of a run wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from shardmark.harness.sandbox.contract import Cancelled
from shardmark.harness.sandbox.link import Relay, receive, send

FIRST, SECOND, BOUND = b'["solution",[0,0],null]', b'["solution",[0,1],null]', b'["bound",3]'


@pytest.fixture
def ends() -> Iterator[tuple[Relay, socket.socket]]:
    """The supervisor's relay and the client's socket."""
    theirs, ours = socket.socketpair()
    with theirs, ours:
        ours.settimeout(10.0)
        yield Relay(theirs), ours


def test_news_are_sent_when_they_are_asked_for(ends) -> None:
    relay, client = ends
    relay.offer(1.0, FIRST)
    relay.flush()
    assert not relay.waiting
    send(client, {"news": True})
    assert relay.request() == ""
    assert relay.waiting
    relay.flush()
    assert receive(client) == ({"news": [1.0]}, [FIRST])
    relay.offer(2.0, SECOND)
    assert not relay.waiting


def test_newer_news_replace_those_that_were_not_asked_for(ends) -> None:
    relay, client = ends
    for arrival, payload in ((1.0, FIRST), (2.0, BOUND), (3.0, SECOND), (4.0, b'["done",7]'), (5.0, b"")):
        relay.offer(arrival, payload)
    send(client, {"news": True})
    relay.request()
    relay.flush()
    assert receive(client) == ({"news": [3.0, 2.0]}, [SECOND, BOUND])


def test_what_a_program_prints_is_news_too(ends) -> None:
    relay, client = ends
    for arrival, line in (
        (1.0, b'{"solution": [0,0]}'),
        (2.0, b'{"cost": 3, "solution": [0,1]}'),
        (3.0, b'{"bound":3}'),
    ):
        relay.offer(arrival, line)
    send(client, {"news": True})
    relay.request()
    relay.flush()
    assert receive(client) == ({"news": [2.0, 3.0]}, [b'{"cost": 3, "solution": [0,1]}', b'{"bound":3}'])


def test_a_client_that_does_not_read_is_not_waited_for(ends) -> None:
    relay, client = ends
    long = FIRST.replace(b"0,0", b"0," * (4 << 20) + b"0")
    relay.offer(1.0, long)
    relay.asked = True
    relay.flush()
    assert relay.waiting
    relay.offer(2.0, SECOND)
    relay.flush()
    data = bytearray()
    while relay.waiting:
        data += client.recv(1 << 20)
        relay.flush()
    while len(data) < len(long):
        data += client.recv(1 << 20)
    assert data.endswith(long)
    assert data.count(b"[0,1]") == 0


def test_a_client_may_end_the_run_or_go(ends) -> None:
    relay, client = ends
    send(client, {"halt": "enough"})
    assert relay.request() == "enough"
    client.close()
    with pytest.raises(Cancelled):
        relay.request()


def test_nothing_is_begun_after_the_end(ends) -> None:
    relay, _ = ends
    relay.asked = True
    relay.finish()
    relay.offer(1.0, FIRST)
    assert not relay.waiting
