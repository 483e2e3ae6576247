"""The output of a program: reports count as they come, and the last other line in time that is a list or object."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.harness.sandbox import external_output as printing
from shardmark.harness.sandbox.external_output import LINE_BYTES, LINE_LISTS, OutputParser
from shardmark.harness.sandbox.protocol import Message, ProtocolError, decode

OUTPUT = b'10 %\r20 %\r[9]\rreading\n[0, 1]\n[oops]\n{"block": [0]}\nlog [1]\n[1],[2]\n  [2]\t\r\n[3, 4'


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at)]


def told(*pieces: tuple[bytes, float]) -> tuple[OutputParser, object, bytes]:
    """Feed pieces to a parser; return it, the answer it found, and the log it passed on."""
    log = bytearray()
    answer = OutputParser(10.0, lambda *_: None, log.extend)
    for piece, arrival in pieces:
        answer.feed(piece, arrival)
    message = answer.close()
    return answer, message and (message[0], json.loads(message[1])), bytes(log)


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_it_does_not_matter_where_the_pieces_are_cut(places):
    answer, message, log = told(*((piece, 1.0) for piece in cut(OUTPUT, places)))
    assert message == (1.0, ["solution", [2]])
    assert log == b"10 %\r20 %\rreading\n[oops]\nlog [1]\n[1],[2]\n[3, 4"
    assert answer.fault is None


def test_a_line_feed_after_a_piece_ends_a_line_even_if_a_carriage_return_ended_a_report_in_that_piece():
    _, message, log = told((b'{"bound": 1}\r[0]', 0.1), (b"\n[1]\n", 0.2))
    assert (message, log) == ((0.2, ["solution", [1]]), b"")


def test_an_answer_is_stamped_when_its_last_byte_arrives_and_counts_if_that_is_before_the_limit():
    assert told((b"[1]\n[", 1.0), (b"2]", 2.0), (b"\n", 3.0))[1] == (2.0, ["solution", [2]])
    assert told((b"[1]\n[2", 9.0), (b"]\n[3]\n", 11.0))[1] == (9.0, ["solution", [1]])


@pytest.mark.parametrize("line", [b"[NaN]", b"[1,]", b"[", b"[1]]", b'["a]', b"[1] [2]", b"[" * 100_000, b"[\xff]"])
def test_output_that_is_not_json_is_log(line):
    _, message, log = told((b"[1]\n" + line + b"\n", 1.0))
    assert message == (1.0, ["solution", [1]])
    assert log == line + b"\n"


@pytest.mark.parametrize(
    "output",
    [
        b"\xef\xbb\xbf[1]\n",
        b"log\r\n[1]\r\n",
        b"10 %\r100 %\r[1]",
        b"\x1b[32m[1]\x1b[0m\n",
        b"\x1b]0;a title\x07\x1b[2K\x1b[1G [1]\x1b[m",
    ],
)
def test_what_files_and_terminals_add_is_ignored(output):
    parser, message, _ = told((output, 1.0))
    assert (message, parser.fault) == ((1.0, ["solution", [1]]), None)
    reports: list[bytes] = []
    parser = OutputParser(10.0, lambda _, report: reports.append(report), lambda _: None)
    parser.feed(output.replace(b"[1]", b'{"solution": [1]}'), 1.0)
    assert (parser.close(), reports) == (None, [b'{"solution": [1]}'])


@pytest.mark.parametrize("line", [b"{'solution': [0, 1]}", b"{'cost': 3, 'solution': [0, 1]}", b"{'bound': 3}"])
def test_a_report_as_python_prints_a_dict_is_told_to_be_no_json(line):
    reports: list[bytes] = []
    parser = OutputParser(10.0, lambda _, report: reports.append(report), lambda _: None)
    parser.feed(line + b"\n", 1.0)
    assert (parser.close(), reports) == (None, [line])
    with pytest.raises(ProtocolError, match="not valid JSON"):
        decode(line)


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("line", ["[0, 1]\n", 'log\n{"solution": [0, 1]}\n'])
def test_utf_16_is_named(code, line):
    parser, message, log = told((b"[1]\n", 1.0), (line.encode(code), 2.0))
    assert parser.fault == "printed a solution or bound in UTF-16 or UTF-32, expected UTF-8"
    assert (message, log) == ((1.0, ["solution", [1]]), line.encode(code))
    assert told(("log\n".encode(code), 1.0))[0].fault is None


REPORTS = [
    b'{"solution":[0]}',
    b'  { "solution" : {"block": [0]} , "cost": 3 }\r',
    b'{"cost": 3, "solution": [0]}',
    b'{"bound": 2.5}',
    b'{"bound": 2.5',  # whether it can be read is for the referee to say
    b'{"solution": no list at all}',
]
OTHERS = [
    b'{"cost": 3}',
    b'{"cost": 3, "time": 1, "solution": [0]}',
    b'["solution", [0]]',
    b'{"block": [0], "bound": 1}',
]


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_every_line_that_begins_as_a_report_does_is_one(places):
    reports: list[tuple[float, bytes]] = []
    log = bytearray()
    parser = OutputParser(10.0, lambda *report: reports.append(report), log.extend)
    lines = [line for pair in zip(REPORTS, [*OTHERS, b"x", b"y"], strict=True) for line in pair]
    for number, piece in enumerate(cut(b"\n".join(lines), places)):
        parser.feed(piece, number / 10)
    answer = parser.close()
    assert answer is not None
    assert answer[1] == b'["solution",{"block": [0], "bound": 1}]'
    assert [line for _, line in reports] == [line.strip() for line in REPORTS]
    assert [arrival for arrival, _ in reports] == sorted(arrival for arrival, _ in reports)
    assert log == b"x\ny"


def test_a_line_that_is_too_long_is_log_and_a_fault_if_it_looks_like_an_answer():
    long = b"," * LINE_BYTES
    answer, message, log = told((b"[1]\nx" + long, 1.0), (b"]\n[2]\n", 2.0))
    assert (answer.fault, message) == (None, (2.0, ["solution", [2]]))
    assert log == b"x" + long + b"]\n"
    answer, message, _ = told((b"[1]\n[" + long, 1.0), (b"]\n", 2.0))
    assert message == (1.0, ["solution", [1]])
    assert answer.fault == "printed a line of more than 4 MiB, the limit for a solution"


def test_a_line_of_too_many_lists_is_log_and_a_fault(monkeypatch):
    """A line of 4 MiB with a million lists kept the monitor from its clock for seconds."""
    line = b"[" + b"[]," * LINE_LISTS + b"0]"
    monkeypatch.setattr(printing, "decode", lambda message: Message("solution", 0) if line not in message else 1 / 0)
    answer, message, log = told((b"[1]\n" + line + b"\n", 1.0))
    assert (message, log) == ((1.0, ["solution", [1]]), line + b"\n")
    assert answer.fault == "printed a line of more than 131072 lists, the limit for an answer"
    assert told((b"log " + line + b"\n", 1.0))[0].fault is None
