"""Frames survive any cutting of the stream; malformed input is a fault with a sentence."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.sandbox.protocol import HEADER, KINDS, FrameDecoder, Message, ProtocolError, decode, encode


@given(st.lists(st.lists(st.integers(-(10**30), 10**30), max_size=5), max_size=6), st.integers(1, 50))
def test_frames_survive_any_cutting(solutions, size):
    stream = b"".join(encode("solution", s) for s in solutions)
    frames, payloads = FrameDecoder(), []
    for at in range(0, len(stream), size):
        payloads += frames.feed(stream[at : at + size])
    frames.close()
    assert frames.fault is None
    assert [decode(p) for p in payloads] == [Message("solution", s) for s in solutions]


def test_numpy_values_become_plain():
    (payload,) = FrameDecoder().feed(encode("solution", {"block": np.arange(3), "order": [np.int64(2)]}))
    assert decode(payload).value == {"block": [0, 1, 2], "order": [2]}


@pytest.mark.parametrize("value", [object(), float("nan"), float("inf"), {1, 2}, np.array([np.nan])])
def test_the_sender_refuses_values_that_are_not_plain_json(value):
    with pytest.raises((TypeError, ValueError)):
        encode("solution", value)


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        (b"rubbish that is long enough", "bytes that are not a message"),
        (HEADER.pack(b"SM", 2**31, 0), "bytes that are not a message"),
        (HEADER.pack(b"SM", 2, 0) + b"[]", "checksum is wrong"),
        (encode("bound", 1)[:-1], "middle of a message"),
    ],
)
def test_a_broken_stream_is_a_fault_and_keeps_earlier_messages(stream, fault):
    frames = FrameDecoder()
    payloads = frames.feed(encode("bound", 7) + stream)
    frames.close()
    assert [decode(p).value for p in payloads] == [7]
    assert fault in frames.fault
    assert frames.feed(encode("bound", 8)) == []


def test_a_claimed_cost_comes_with_its_solution():
    (payload,) = FrameDecoder().feed(encode("solution", [1], np.int64(2**62)))
    assert decode(payload) == Message("solution", [1], 2**62)
    (payload,) = FrameDecoder().feed(encode("solution", [1], None))
    assert decode(payload) == Message("solution", [1])


@pytest.mark.parametrize(
    "payload",
    [
        *(b"\xff", b"{}", b"7", b"null", b"[]"),
        *(b'["cheat", 1]', b'["bound"]', b'["bound", 1, 2]', b'["solution", 1, 2, 3]'),
        *(b'["solution", [NaN]]', b'["solution", -Infinity]', b'["solution", 0, NaN]', b'["bound", Infinity]'),
        *(b"[" * 100_000, b'["solution", ' + b"[" * 500_000, b"1" * 9000, b'["bound", ' + b"1" * 10**6 + b"]"),
        *(b'["declined", 1]', b'["error", ["x"]]', b'["done", "x"]', b'["done", true]', b'["done", 1e999]'),
    ],
)
def test_an_invalid_payload_is_refused(payload):
    with pytest.raises(ProtocolError, match="a message was not"):
        decode(payload)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"true", b'"1"', b"[1]", b"{}", b"1" + b"0" * 309])
@pytest.mark.parametrize(
    ("begin", "fault"), [(b'["bound", ', "reported a bound"), (b'["solution", 0, ', "claimed a cost")]
)
def test_an_invalid_number_is_refused(begin, fault, number):
    with pytest.raises(ProtocolError, match=f"{fault} that is not a finite number"):
        decode(begin + number + b"]")


nested = st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=8)


@given(st.binary(max_size=40) | nested.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_message_or_refused(payload):
    with contextlib.suppress(ProtocolError):
        assert decode(payload).kind in KINDS
