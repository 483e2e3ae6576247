"""Text for people: what an object looks like on a terminal."""

from __future__ import annotations

from shardmark.cli.terminal import MAX_LINES, pairs


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
