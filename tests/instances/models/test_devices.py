"""The catalog of devices, files of users, and every key that can be wrong in them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances.errors import InputError
from shardmark.instances.models.devices import TYPES, Device, device, devices
from shardmark.instances.models.model import BITS

ENTRY = """
source = "made up"
peak = { float32 = 2e12, float16 = 8e12, int8 = 1 }
bandwidth = 1e12
memory = 16e9
launch = 0
link_bandwidth = 1e10
link_latency = 5e-6
"""


def written(tmp_path, text=ENTRY):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def rates(**peak):
    return Device("toy", peak, 1, 1, 0, 1, 0, "made up")


def test_the_catalog():
    assert len(devices()) >= 12
    for name, entry in devices().items():
        assert entry.name == name
        assert device(name) is entry
        assert entry.source
        assert 1e-7 <= entry.link_latency <= 1e-4
        assert 0 <= entry.launch <= 1e-4
        assert 1e10 <= entry.memory <= 1e12
        assert entry.link_bandwidth < entry.bandwidth
        assert entry.rate("float32") <= entry.rate("float16")


def test_figures_of_a_data_sheet():
    """NVIDIA T4: 65 TFLOPS of mixed precision, 8.1 of single precision, 320 GB/s, 16 GB."""
    t4 = device("t4")
    assert (t4.rate("float16"), t4.rate("float32"), t4.bandwidth, t4.memory) == (65e12, 8.1e12, 320e9, 16e9)


def test_a_file_of_the_user(tmp_path):
    mine = device(written(tmp_path))
    assert (mine.name, mine.memory, mine.launch, mine.peak["int8"]) == ("mine", 16e9, 0.0, 1.0)
    assert device(str(written(tmp_path))) == mine


@pytest.mark.parametrize(
    ("dtype", "rate"),
    [
        ("float32", 2.0),
        ("float16", 8.0),
        ("bfloat16", 2.0),  # as float32, the narrowest that is at least as wide
        ("float8_e4m3fn", 8.0),
        ("float64", 2.0),  # wider than all: the widest
        ("int8", 16.0),
        ("uint8", 16.0),
        ("int4", 16.0),
        ("uint64", 16.0),
        ("bool", math.inf),
        ("complex64", math.inf),
    ],
)
def test_rates_of_types(dtype, rate):
    assert rates(float32=2.0, float16=8.0, int8=16.0).rate(dtype) == rate


@given(st.dictionaries(st.sampled_from(TYPES), st.floats(1, 1e15), min_size=1), st.sampled_from(sorted(BITS)))
def test_every_rate_is_one_of_the_peaks_or_infinite(peak, dtype):
    assert rates(**peak).rate(dtype) in {*peak.values(), math.inf}


@pytest.mark.parametrize("key", ["source", "peak", "bandwidth", "memory", "launch", "link_bandwidth", "link_latency"])
def test_missing_keys(tmp_path, key):
    path = written(tmp_path, re.sub(f"(?m)^{key} = .*\n", "", ENTRY))
    with pytest.raises(InputError, match=re.escape(f"{path}: expected a key '{key}'")):
        device(path)


POSITIVE, OTHERS = ("bandwidth", "memory", "link_bandwidth"), ("launch", "link_latency")


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        *((key, value, key) for key in POSITIVE for value in ("0", "-1", "nan", "inf", "true", '"1"')),
        *((key, value, key) for key in OTHERS for value in ("-1", "nan", "inf", "false", "[]")),
        ("peak", "{ float16 = 0 }", "peak.float16"),
        ("peak", "{ float16 = true }", "peak.float16"),
        ("peak", "{ float17 = 1 }", "peak key 'float17'"),
        ("peak", "{ int8 = 1 }", "peak: expected a rate for a floating-point type"),
        ("peak", "3", "peak: expected an object"),
        ("source", "7", "source: expected a text"),
        ("source", '"made up"\nmemroy = 3', "key 'memroy'"),
    ],
)
def test_wrong_values(tmp_path, key, value, place):
    path = written(tmp_path, re.sub(f"(?m)^{key} = .*$", lambda _: f"{key} = {value}", ENTRY))
    with pytest.raises(InputError) as caught:
        device(path)
    assert str(caught.value).startswith(f"{path}: {place}")


@pytest.mark.parametrize("name", ["h1000", "", "H100", "mine.json"])
def test_unknown_names(name):
    with pytest.raises(InputError, match=r"expected a file \*.toml, or one of h100, "):
        device(name)


@pytest.mark.parametrize("text", ["= 3", "a" * 10, "[x", "x = " + "[" * 5000, "x = " + "9" * 5000, "\x00"])
def test_files_that_are_not_toml(tmp_path, text):
    with pytest.raises(InputError):
        device(written(tmp_path, text))


def test_no_file(tmp_path):
    with pytest.raises(InputError):
        device(tmp_path / "none.toml")
