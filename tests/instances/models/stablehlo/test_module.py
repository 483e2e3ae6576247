"""MLIR's parser gets no text that is nested so deeply that it would crash."""

from __future__ import annotations

import pytest

from shardmark.instances.errors import InputError
from shardmark.instances.models.stablehlo.module import parse

DEEP = {
    "attribute": f"func.func @main() attributes {{a = {'[' * 10_000}{']' * 10_000}}} {{ return }}",
    "regions": "func.func @main(%p: tensor<i1>) {\n" + '"stablehlo.if"(%p) ({\n' * 3000,
    "types": f"func.func @main(%x: {'tuple<' * 1001}i1{'>' * 1001}) {{ return }}",
}


@pytest.mark.parametrize("program", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused_at_its_place(program):
    with pytest.raises(InputError, match=r"line \d+ column \d+: expected at most 1,000 brackets within each other"):
        parse(program.encode(), "program")


def test_brackets_in_strings_and_comments_do_not_count():
    opening = "([{<" * 1000
    program = f"""// {opening}
    func.func @main(%0: tensor<i1>) -> tensor<i1> attributes {{a.b = "\\22{opening}\\\\"}} {{
      return %0 : tensor<i1> loc("{opening}")
    }}"""
    assert len(parse(program.encode(), "program").body.operations) == 1


def test_arrows_and_comparisons_close_nothing():
    lines = "".join(f"func.func private @f{number}(i1) -> i1\n" for number in range(1200))
    assert len(parse(f"module {{{lines}}}".encode(), "program").body.operations) == 1200
    with pytest.raises(InputError, match="brackets within each other"):
        parse(("func.func @main() {" + "-> >= <= [" * 1001).encode(), "program")
