"""Devices that run models: peak rates, memory and links, from data sheets or a user's file."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shardmark.instances.catalog import near_miss
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import describe
from shardmark.instances.files.jsonfile import require_keys
from shardmark.instances.files.tomlfile import load_toml
from shardmark.instances.models.model import BITS

CATALOG = Path(__file__).with_name("devices.toml")
#: Data types that a device can have a rate for. One rate stands for all 8-bit floats, another for all 4-bit ones.
TYPES = ("float64", "float32", "float16", "bfloat16", "float8", "float4", "int32", "int16", "int8", "int4", "int2")
_BITS = {**BITS, "float8": 8, "float4": 4}


@dataclass(frozen=True)
class Device:
    """A device of a machine with equal devices, and the links between them.

    ``name``            of the catalog, or the stem of the file
    ``peak``            arithmetic operations per second by data type, one of `TYPES`
    ``bandwidth``       bytes per second between the device and its memory
    ``memory``          bytes
    ``launch``          seconds to start an operator
    ``link_bandwidth``  bytes per second from one device to another
    ``link_latency``    seconds until the first byte of a tensor arrives
    ``source``          of these figures
    ``network_bandwidth``  bytes per second from one device to one in another machine; None if not known

    >>> device("h100").rate("bfloat16")
    989400000000000.0
    """

    name: str
    peak: Mapping[str, float]
    bandwidth: float
    memory: float
    launch: float
    link_bandwidth: float
    link_latency: float
    source: str
    network_bandwidth: float | None = None

    def rate(self, dtype: str) -> float:
        """Arithmetic operations per second on numbers of a type; infinite if the device has no rate for such numbers.

        A type without a rate has the rate of the narrowest type of its kind (floats or integers) that has a rate and is
        at least as wide, or if there is none, that of the widest type of its kind. Booleans and
        complex numbers have no kind.
        """
        name = dtype.removeprefix("u").partition("_")[0]
        if name in self.peak:
            return self.peak[name]
        listed = [other for other in self.peak if _kind(other) == _kind(name)]
        wider = [other for other in listed if _BITS[other] > _BITS[name]]
        if not listed:
            return math.inf
        return self.peak[min(wider, key=_BITS.__getitem__) if wider else max(listed, key=_BITS.__getitem__)]


def _kind(dtype: str) -> str:
    return dtype.removeprefix("b").rstrip("0123456789")


def device(name: str | os.PathLike[str]) -> Device:
    """Return a device of the catalog, or of a TOML file that has the keys of an entry at its top level.

    Raises InputError for a name that is neither, and for a file with a missing, unknown or wrong key.
    """
    known = devices()
    text = os.fspath(name)
    if text in known:
        return known[text]
    if not text.endswith(".toml"):
        expected = f"expected a file *.toml, or one of {', '.join(known)}{near_miss(text, known)}"
        raise InputError("device", repr(text), expected)
    return device_of_entry(Path(text).stem, load_toml(text), text, "")


@cache
def devices() -> Mapping[str, Device]:
    """The devices of the catalog by name, in its order."""
    return {name: device_of_entry(name, entry, str(CATALOG), name) for name, entry in load_toml(CATALOG).items()}


def device_of_entry(name: str, entry: Any, source: str, place: str) -> Device:
    """The device that an entry of the catalog describes, at a place in a file; InputError as `device` raises."""
    positive, others = ("bandwidth", "memory", "link_bandwidth"), ("launch", "link_latency")
    require_keys(entry, source, place, (*positive, *others, "peak", "source"), ("network_bandwidth",))
    prefix = f"{place}." if place else ""
    if not isinstance(entry["source"], str):
        raise InputError(source, f"{prefix}source", f"expected a text, found {describe(entry['source'])}")
    numbers = (*positive, *others, *(["network_bandwidth"] if "network_bandwidth" in entry else []))
    figures = {key: _figure(entry[key], source, prefix + key, positive=key not in others) for key in numbers}
    return Device(name=name, peak=_peak(entry["peak"], source, f"{prefix}peak"), source=entry["source"], **figures)


def _peak(table: Any, source: str, place: str) -> Mapping[str, float]:
    require_keys(table, source, place, (), TYPES)
    if not any("float" in dtype for dtype in table):
        raise InputError(source, place, "expected a rate for a floating-point type, such as float32")
    return {dtype: _figure(rate, source, f"{place}.{dtype}", positive=True) for dtype, rate in table.items()}


def _figure(value: Any, source: str, place: str, *, positive: bool) -> float:
    if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max or (positive and not value):
        expected = "a positive number" if positive else "a number, at least 0"
        raise InputError(source, place, f"expected {expected}, found {describe(value)}")
    return float(value)
