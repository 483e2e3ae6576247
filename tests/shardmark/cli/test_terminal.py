"""Text for people: what an object looks like on a terminal."""

from __future__ import annotations

import io

import pytest

from shardmark.cli.terminal import MAX_LINES, in_colour, pairs, table, text


def test_what_is_absent_shows_as_a_dash() -> None:
    assert [text(value) for value in (None, "", [])] == ["-", "-", "-"]
    assert pairs({"status": "ok", "reason": ""}).splitlines() == ["status  ok", "reason  -"]


def test_every_element_of_a_list_has_its_line() -> None:
    assert pairs({"cost": 2.5, "violations": ["full at 3", "no link"], "on": []}).split("\n") == [
        "cost        2.5",
        "violations  full at 3",
        "            no link",
        "on          -",
    ]


def test_of_a_long_list_the_first_elements_are_shown_and_the_others_counted() -> None:
    shown = pairs({"violations": [f"vertex {i}" for i in range(MAX_LINES + 1500)]}).split("\n")
    assert len(shown) == MAX_LINES + 1
    assert shown[0] == "violations  vertex 0"
    assert shown[-1] == "            and 1,500 more, shown by --json"
    assert len(pairs({"violations": ["x"] * MAX_LINES}).split("\n")) == MAX_LINES


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_colour_is_for_terminals_whose_user_wants_it(variables, coloured, monkeypatch) -> None:
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    assert in_colour(Terminal()) == coloured
    assert not in_colour(io.StringIO())


def test_verdicts_have_colours_and_names_are_bold() -> None:
    row = {"status": "ok", "feasible": False, "cost": 3}
    bold, green, red = ("\x1b[1m{}\x1b[0m", "\x1b[32m{}\x1b[0m", "\x1b[31m{}\x1b[0m")
    names = [bold.format(name) for name in ("status", "feasible", "cost")]
    cells = [green.format("ok    "), red.format("      no"), "   3"]
    assert table([row], bright=True).split("\n") == ["  ".join(names), "  ".join(cells)]
    assert pairs({"feasible": True}, bright=True) == f"{bold.format('feasible')}  {green.format('yes')}"
    assert "\x1b" not in table([row]) + pairs(row)


def test_a_lower_bound_is_rounded_down():
    row = {"cost": 1811.489, "lower_bound": 1811.485, "gap": None}
    assert table([row]).split()[-3:] == ["1811.49", "1811.48", "-"]
    assert pairs({"bound": 1811.4899}) == "bound  1811.48"
    assert pairs({"cost": 1811.4899}) == "cost  1811.49"
    assert pairs({"lower_bound": -0.5}) == "lower_bound  -0.5"
