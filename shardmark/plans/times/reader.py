"""Files of measured times of every kind, told apart by content."""

from __future__ import annotations

from pathlib import Path

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import TooLarge, decode, parse_json, read_bytes
from shardmark.plans.times.measured import Measured
from shardmark.plans.times.nsight import is_summary, read_summary
from shardmark.plans.times.table import read_csv, read_rows
from shardmark.plans.times.torch_profiler import events_of, is_averages, read_averages, read_trace

#: Bytes of a file, compressed or not; the objects of a trace take some ten times as much memory.
LARGEST = 256 << 20


def read_times(path: Path) -> Measured:
    """The measured times of a file: a table as CSV or JSON, or what a profiler writes.

    Raises InputError for any other file, and for more than `LARGEST` bytes.
    """
    source = str(path)
    try:
        text = decode(read_bytes(path, LARGEST), path).replace("\r\n", "\n")
    except TooLarge:
        expected = f"expected at most {LARGEST >> 20} MiB, compressed or not: profile fewer runs, or use the averages"
        raise InputError(path, "", expected) from None
    if text.lstrip()[:1] in ("{", "["):
        document = parse_json(text, path)
        events = events_of(document)
        return read_rows(document, source) if events is None else read_trace(events, source)
    if is_averages(text):
        return read_averages(text, source)
    if is_summary(text):
        return read_summary(text, source)
    return read_csv(text, source)
