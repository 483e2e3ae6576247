"""Functions of StableHLO programs are measured before they are inlined, and may call each other however deeply."""

from __future__ import annotations

import pytest
from read_models import read_stablehlo

from shardmark.instances.errors import InputError

TYPE = "tensor<4xf32>"
LAST = f"stablehlo.negate %0 : {TYPE}"


def function(name, *steps):
    lines = [f"%{number + 1} = {step.replace('%0', f'%{number}')}" for number, step in enumerate(steps)]
    return "\n".join((f"func.func @{name}(%0: {TYPE}) -> {TYPE} {{", *lines, f"return %{len(steps)} : {TYPE}", "}"))


def call(name, location=""):
    return f"func.call @{name}(%0) : ({TYPE}) -> {TYPE} {location and f'loc({location!r})'}".replace("'", '"')


def calling(levels, calls, location="", last=LAST):
    """Each function calls the one before it so many times; the first one has one operator."""
    inner = [function(f"f{level}", *[call(f"f{level - 1}", location)] * calls) for level in range(1, levels)]
    return "\n".join((function("f0", last), *inner, function("main", call(f"f{levels - 1}"))))


@pytest.fixture
def read(tmp_path):
    def read(program):
        (tmp_path / "program.mlir").write_text(program)
        return read_stablehlo(tmp_path / "program.mlir")

    return read


def test_calls_may_be_nested_deeply(read):
    assert [operator.kind for operator in read(calling(1200, 1)).operators] == ["negate"]


def test_calls_of_calls_are_inlined(read):
    assert len(read(calling(9, 2)).operators) == 2**8


REFUSED = {
    "doubling": (calling(40, 2), "at most 2,000,000 operators once function calls are inlined, found 549,755,813,888"),
    "without end": (calling(100, 2), r"at most 2,000,000 operators .* found over 1(,000){6}"),
    "long names": (calling(18, 2, "n" * 1000), "at most 1,073,741,824 bytes of operators once"),
    "recursive": (calling(3, 1, last=call("f2")), "no recursion, found f. calls f. calls f. calls f."),
}


@pytest.mark.parametrize(("program", "expected"), REFUSED.values(), ids=REFUSED)
def test_functions_are_measured_before_they_are_inlined(read, program, expected):
    with pytest.raises(InputError, match=f"functions: expected {expected}"):
        read(program)
