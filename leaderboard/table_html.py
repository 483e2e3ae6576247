"""Pieces of tables that pages have by the thousand, in Python: a template takes ten times as long."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any

from markupsafe import Markup

from shardmark.leaderboard.explain import GRADES
from shardmark.leaderboard.pages.tracks import Row
from shardmark.leaderboard.text import (
    exact,
    gap,
    log_file,
    meaning,
    page_of,
    printable,
    score_text,
    seconds,
    shorten,
    slug,
    sort_key,
    tone,
)

MOST_SHOWN = 80  # characters of a name in a table
NO_CLAIM = {"end": None, "cost": None, "lower_bound": None, "solutions": None}


def number(value: Any, words: object = None, title: object = None) -> Markup:
    """A cell with a number, shown as ``words``."""
    return Markup(_number(value, words, title))


def cost(text: str | None, value: Any) -> Markup:
    """A cell with a cost or bound: its decimal text, and the value that it is sorted by."""
    return Markup(_cost(text, value))


def solver(root: str, track: str, name: str) -> Markup:
    """A link to the page of a solver or bound method."""
    return Markup(_link(root + page_of("solvers", track, name), name))


def instance(root: str, track: str, name: str) -> Markup:
    """A link to the page of an instance."""
    return Markup(_link(root + page_of("instances", track, name), name))


@cache
def badge(status: str) -> Markup:
    """The status of a run, with its meaning."""
    told = meaning(status)
    words = f"{told[:1].upper()}{told[1:]}."
    return Markup(f'<span class="status {tone(status)}" title="{escape(words)}">{_shown(status)}</span>')


def mark(is_yours: bool) -> Markup:
    """The mark of a method with runs of one's own among those of an edition."""
    return Markup(' <span class="yours">yours</span>' if is_yours else "")


def result_of_solver(root: str, track: str, cell: Row, colour: str, is_yours: bool) -> Markup:
    """The row of a solver on the page of an instance."""
    name = _link(root + page_of("solvers", track, cell["solver"]), cell["solver"])
    anchor = f"solver-{slug(cell['solver'])}"
    return Markup(
        f'<tr id="{anchor}" data-solver="{_word(cell["solver"])}">'
        f'<th scope="row"><span class="chip {colour}" aria-hidden="true"></span>{name}{mark(is_yours)}'
        f"{_permalink(anchor)}</th>"
        f"{_seeds(root, cell, 'run')}{_statuses(cell)}{_cost_facts(cell)}{_effort(cell)}</tr>\n"
    )


def costs_of_seeds(root: str, track: str, cell: Row, seeds: list[int]) -> Markup:
    """The row of a solver among the costs of ``seeds``; a run without a cost shows its status."""
    found = {run["seed"]: run for run in cell["seeds"]}
    name = _link(root + page_of("solvers", track, cell["solver"]), cell["solver"])
    return Markup(
        f'<tr data-solver="{_shown(cell["solver"])}"><th scope="row">{name}</th>'
        f"{''.join(_cost_of_seed(found.get(seed)) for seed in seeds)}</tr>\n"
    )


def _cost_of_seed(run: Row | None) -> str:
    if run is None or run["cost_exact"] is None:
        return f'<td class="n" data-sort="">{badge(run["status"]) if run else "–"}</td>'
    return _cost(run["cost_exact"], float(run["cost_exact"]))


def bound_of_method(root: str, track: str, cell: Row) -> Markup:
    """The row of a bound method on the page of an instance."""
    name = _link(root + page_of("solvers", track, cell["solver"]), cell["solver"])
    anchor = f"bound-{slug(cell['solver'])}"
    worth = '<td>–</td><td class="n" data-sort="">contradicted</td><td>no</td>'
    if cell["bound_trusted"]:
        worth = (
            _grade(cell) + _plain(cell["bound_score"], score_text(cell["bound_score"])) + _answer(cell["bound_proves"])
        )
    return Markup(
        f'<tr id="{anchor}" data-solver="{_word(cell["solver"])}"><th scope="row">{name}{_permalink(anchor)}</th>'
        f"{_seeds(root, cell, 'bound-run')}{_statuses(cell)}"
        f"{_cost(cell['lower_bound_exact'], cell['lower_bound'])}{worth}"
        f"{_time(cell['time_to_bound_s'])}{_time(cell['wall_s'])}</tr>\n"
    )


def result_on_instance(root: str, track: str, cell: Row, kind: str, named: bool) -> Markup:
    """The row of an instance on the page of a solver or bound method, with its division in a track of several."""
    page, name = root + page_of("instances", track, cell["instance"]), slug(cell["solver"])
    anchor = f"{'solver' if kind == 'solver' else 'bound'}-{name}"
    worth = _cost_facts(cell)
    if kind == "bound":
        worth = (
            f"{_cost(cell['lower_bound_exact'], cell['lower_bound'])}{_grade(cell)}"
            f"{_plain(cell['bound_score'], score_text(cell['bound_score']))}"
            f"{_answer(cell['bound_best'])}{_answer(cell['bound_proves'])}{_time(cell['time_to_bound_s'])}"
        )
    division = f"<td>{_word(cell['division'])}</td>" if named else ""
    linked = kind == "solver" or cell["lower_bound"] is not None
    return Markup(
        f'<tr><th scope="row">{_link(f"{page}#{anchor}" if linked else page, cell["instance"])}</th>'
        f"{division}{_plain(cell['runs'], cell['runs'])}{_statuses(cell)}"
        f"{worth}{_effort(cell)}</tr>\n"
    )


def end_of_run(root: str, track: str, run: Row, elsewhere: bool) -> Markup:
    """The row of a run: why it stopped, what it claimed, and what the referee found."""
    claim = json.loads(run["claimed"]) if run["claimed"] else NO_CLAIM
    limit = run["cpu_limit_s"]
    host = f"<td>{_word(run['host']) if run['host'] else 'the referee&#39;s'}</td>" if elsewhere else ""
    return Markup(
        f'<tr><th scope="row">{_link(root + page_of("instances", track, run["instance"]), run["instance"])}</th>'
        f"{_plain(run['seed'], run['seed'])}<td>{_word(run['stop'])}</td><td>{_word(claim['end'] or '–')}</td>"
        f"{_cost(claim['cost'], claim['cost'])}{_cost(claim['lower_bound'], claim['lower_bound'])}"
        f"{_number(claim['solutions'])}<td>{_word(run['verified'] or '–')}</td>{_time(run['cpu_s'])}"
        f"{_plain(limit, '–' if limit is None else f'{limit:g}')}{_number(run['co_runners'])}{host}</tr>\n"
    )


def _cost_facts(cell: Row) -> str:
    score, certified = cell["score"], cell["certified"]
    above = escape(gap(cell["gap"]))
    return (
        f"{_cost(cell['cost_exact'], cell['cost'])}{_plain(score, score_text(score), '' if score is None else score)}"
        f"{_plain(certified, score_text(certified))}{_plain(cell['gap'], above)}{_time(cell['time_to_best_s'])}"
    )


def _effort(cell: Row) -> str:
    limit, peak = cell["timeout_s"], cell["peak_mib"]
    return f"{_time(cell['wall_s'])}{_plain(limit, f'{limit:g}')}{_plain(peak, f'{peak:,.0f}')}"


def _number(value: Any, words: object = None, title: object = None) -> str:
    told = words if words is not None else "–" if value is None else value
    return f'<td class="n" data-sort="{_shown(sort_key(value))}"{_title(title)}>{_shown(told)}</td>'


def _cost(text: str | None, value: Any) -> str:
    return _plain(value, exact(text), text or "")


def _time(value: float | None) -> str:
    return _plain(value, seconds(value))


def _plain(value: float | str | None, words: object, title: object = "") -> str:
    """A cell with a number, whose words and title have no characters to escape."""
    told = f' title="{title}"' if title != "" else ""
    return f'<td class="n" data-sort="{sort_key(value)}"{told}>{words}</td>'


def _grade(cell: Row) -> str:
    """A cell with the grade of a bound."""
    return f"<td>{grade(cell['grade'])}</td>"


@cache
def grade(name: str | None) -> Markup:
    """The grade of a bound, with its meaning; a dash without a bound that counts."""
    if not name:
        return Markup("–")
    told = GRADES[name]
    return Markup(f'<span class="grade {name}" title="{escape(f"{told[:1].upper()}{told[1:]}.")}">{name}</span>')


def _answer(value: object) -> str:
    return "<td>yes</td>" if value else "<td>no</td>"


def _title(words: object) -> str:
    return "" if words is None else f' title="{_shown(words)}"'


def _shown(value: object) -> str:
    """A value as the text of a page."""
    return escape(printable(value)) if isinstance(value, str) else str(value)


@cache
def _word(words: str) -> str:
    """A name or status as the text of a page: there are few."""
    return escape(printable(words))


def _link(path: str, name: str) -> str:
    return f'<a href="{path}">{_short(name)}</a>'


@cache
def _short(name: str) -> str:
    return escape(shorten(printable(name), MOST_SHOWN))


def _permalink(anchor: str) -> str:
    return f'<a class="permalink" href="#{anchor}" aria-label="Link to this row"></a>'


def _statuses(cell: Row) -> str:
    """A cell with each status of the runs of a method on an instance."""
    return f"<td>{' '.join(map(badge, cell['statuses']))}</td>"


def _seeds(root: str, cell: Row, kind: str) -> str:
    """A cell with the seeds of the runs of a method on an instance: each links its log."""
    anchor = f"{kind}-{slug(cell['solver'])}"
    runs = " ".join(
        f'<{tag} id="{anchor}-{run["seed"]}" title="{_result(run)}">{run["seed"]}</{tag.split()[0]}>'
        for run in cell["seeds"]
        for tag in [f'a href="{root}{log_file(run["log"])}"' if run["log"] else "span"]
    )
    more = cell["runs"] - len(cell["seeds"])
    return f'<td class="n" data-sort="{cell["runs"]}">{runs}{f" and {more} more" if more else ""}</td>'


def _result(run: Row) -> str:
    cost = f", cost {run['cost_exact']}" if run["cost_exact"] is not None else ""
    bound = f", bound {run['lower_bound_exact']}" if run["lower_bound_exact"] is not None else ""
    return f"seed {run['seed']}: {_word(run['status'])}{cost}{bound}"
