"""Words, numbers and file names of pages."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.leaderboard.text import (
    LOG_LINES,
    STATUS,
    count,
    exact,
    fact,
    gap,
    heat,
    held,
    meaning,
    page_of,
    percent,
    printable,
    rough,
    score_text,
    seconds,
    short,
    shorten,
    si,
    slug,
    tail,
    tone,
)


@given(st.sets(st.text(max_size=100) | st.from_regex(r"[a-zA-Z0-9._-]{1,100}", fullmatch=True), min_size=2, max_size=8))
def test_slugs_are_safe_and_differ(names: set[str]) -> None:
    slugs = {slug(name).casefold() for name in names}
    assert len(slugs) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._-]*", made) and len(made) <= 80 for made in slugs)


def test_plain_names_stand_for_themselves() -> None:
    assert slug("brkga-10000") == "brkga-10000"
    assert slug("regal-50.k4") == "regal-50.k4"
    assert page_of("instances", "pipeline", "../../etc/passwd").startswith("instances/pipeline/etc-passwd_")
    assert page_of("tracks", "intraop") == "tracks/intraop.html"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        ("0", "0"),
        ("-1200", "-1,200"),
        ("2000002876201781401777", "2,000,002,876,201,781,401,777"),
        ("12.5", "12.5"),
        ("0.333333333333", "0.333333"),
        ("1234567.891", "1,234,568"),
        ("1e+20", "1e+20"),
    ],
)
def test_exact(value: str | None, shown: str) -> None:
    assert exact(value) == shown


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (1.0, 3, "1.000"),
        (0.9999999, 3, "0.999"),
        (math.nextafter(1.0, 0.0), 3, "0.999"),
        (0.29, 2, "0.29"),
        (3.9799, 2, "3.98"),
        (3.9999, 2, "3.99"),
        (7.0, 2, "7.00"),
        (None, 2, "–"),
        (0.0, 3, "0.000"),
    ],
)
def test_points_are_rounded_but_never_up_to_a_perfect_score(value: float | None, digits: int, shown: str) -> None:
    assert score_text(value, digits) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *[(None, "–"), (0.0, "0 %"), (1e-6, "<0.01 %"), (0.00012, "0.01 %"), (0.012, "1.2 %"), (0.5, "50 %")],
        *[(9.0, "900 %"), (99.0, "100×"), (5e11, "5e11×"), (math.inf, ">1e308×")],
    ],
)
def test_percent_and_gaps_which_are_0_if_proven(value: float | None, shown: str) -> None:
    assert percent(value) == shown
    assert gap(value) == ("optimal" if value == 0 else shown)


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (0.0123, "0.012"), (12.345, "12.35"), (3600.0, "3,600")])
def test_seconds(value: float | None, shown: str) -> None:
    assert seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "none"),
        (True, "yes"),
        (12345, "12,345"),
        (0.25, "0.25"),
        (2.0, "2"),
        ("text", "text"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_fact(value: object, shown: str) -> None:
    assert fact(value) == shown


@pytest.mark.parametrize("most", [12, 13, 16, 20])
def test_names_that_are_cut_still_differ(most: int) -> None:
    names = [f"sharded-transformer-{end}" for end in ("2", "12", "128")]
    cut = [shorten(name, most) for name in names]
    assert len(set(cut)) == 3
    assert all(len(short) == most and short.startswith("shard") for short in cut)
    assert [short.rsplit("-", 1)[1] for short in cut] == ["2", "12", "128"]


def test_names_that_fit_are_not_cut() -> None:
    assert shorten("toulbar2-exact", 14) == "toulbar2-exact"
    assert shorten("toulbar2-exact", 13) == "toulba…-exact"


def test_numbers_of_an_axis_have_a_true_minus_sign() -> None:
    assert [short(value) for value in (-5.7, 0.0, 1e-05, 250.0)] == ["−5.7", "0", "1e−05", "250"]


def test_count() -> None:
    assert [count(n, "run") for n in (0, 1, 12345)] == ["0 runs", "1 run", "12,345 runs"]


def test_heat_keeps_the_darkest_for_the_best() -> None:
    assert [heat(score) for score in (None, 0.0, 0.1, 0.5, 0.999999, 1.0)] == ["none", "q0", "q1", "q2", "q6", "q7"]


def test_control_characters_do_not_reach_a_page() -> None:
    assert printable("\x1b[1;31mred\x1b[0m\r\na\tb\x00\x07") == "red\na\tb\\x00\\x07"


@pytest.mark.parametrize(
    "mark", [*"\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff", "\ud800"]
)
def test_marks_of_direction_and_without_width_are_shown(mark: str) -> None:
    assert printable(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


def test_tail_is_the_end_of_a_log() -> None:
    log = "".join(f"line {i}\n" for i in range(100))
    shown = tail(log).split("\n")
    assert (shown[0], shown[1], shown[-1], len(shown)) == ("…", "line 70", "line 99", LOG_LINES + 1)
    assert tail("one\ntwo\n") == "one\ntwo"


def test_a_number_takes_its_unit_behind_the_prefix() -> None:
    assert (si(80e9), si(80e9, "B"), si(12, "B"), si(12)) == ("80 G", "80 GB", "12 B", "12")


def test_every_status_has_a_tone_and_a_meaning() -> None:
    stops = {
        "timeout",
        "cpu",
        "memory",
        "processes",
        "output",
        "crash",
        "error",
        "declined",
        "import",
        "lost",
        "killed",
        "halted",
    }
    assert set(STATUS) == stops | {"ok", "infeasible", "none", "misclaim", "contradiction"}
    assert {tone(status) for status in STATUS} == {"ok", "mild", "bad", "lie"}
    assert tone("ok") == "ok"
    assert [status for status in STATUS if tone(status) == "lie"] == ["misclaim", "contradiction"]
    assert (tone("of a later version"), meaning("of a later version")) == ("bad", "unknown")


def test_how_limits_were_held() -> None:
    enforced = {"memory": "polled", "wall": "hard", "cores": "hard", "network": "none"}
    assert held(enforced) == "time, cores enforced; memory watched; isolation from the network not held"
    assert held({}) == ""


@pytest.mark.parametrize(
    ("duration", "words"), [(None, "–"), (0, "0 s"), (99, "99 s"), (100, "2 min"), (5999, "100 min"), (9000, "2.5 h")]
)
def test_lengths_of_time(duration: float | None, words: str) -> None:
    assert rough(duration) == words
