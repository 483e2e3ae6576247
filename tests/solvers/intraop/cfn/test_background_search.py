"""A search in the background takes starts between generations, stops when asked, and hands on what it raised."""

from __future__ import annotations

from threading import Event, get_ident

import numpy as np
import pytest

from shardmark.solvers.intraop.cfn.background_search import BackgroundSearch


class Blocks:
    def span_prices(self, multipliers):
        return multipliers


class Recorder:
    """Stands for a generational search: notes what happens to it, and in which thread."""

    def __init__(self):
        self.blocks, self.cores, self.best = Blocks(), 1, None
        self.started, self.generations, self.halted = [], Event(), Event()
        self.threads, self.cores_used, self.fails = set(), [], False

    def begin(self, value, price):
        self.started.append((value, price))

    def halt(self):
        self.halted.set()

    def run(self, until, enough):
        self.cores_used.append(self.cores)
        while not enough():
            if self.fails:
                raise MemoryError
            self.threads.add(get_ident())
            self.generations.set()
            self.halted.wait(0.001)


def background(search, cores, best=lambda: None):
    return BackgroundSearch(search, cores=cores, best=best, enough=lambda: False)


def test_it_searches_in_a_thread_of_its_own_until_paused():
    search, value = Recorder(), np.zeros(1, dtype=np.int64)
    searching = background(search, 3, best=lambda: value)
    searching.start_from(value, {0: 2.0})
    searching.resume()
    assert search.generations.wait(10)
    searching.pause()
    assert search.halted.is_set()
    assert search.started == [(value, {0: 2.0})]
    assert search.best is value
    assert get_ident() not in search.threads
    assert search.cores_used == [3]


def test_a_run_in_the_foreground_ends_the_thread_and_has_all_cores():
    search = Recorder()
    searching = background(search, 1)
    searching.resume()
    assert search.generations.wait(10)
    asked = iter([False, True])
    searching.run(0.0, lambda: next(asked), cores=2)
    assert search.cores_used == [1, 2]
    assert get_ident() in search.threads


def test_without_an_idle_core_there_is_no_thread():
    search = Recorder()
    searching = background(search, 0)
    searching.resume()
    searching.pause()
    assert not search.cores_used


def test_only_the_latest_start_counts():
    search = Recorder()
    searching = background(search, 0)
    for number in range(3):
        searching.start_from(np.array([number]), {})
    searching.run(0.0, lambda: True, cores=1)
    assert [int(value[0]) for value, _ in search.started] == [2]


def test_what_the_thread_raised_is_raised_at_the_pause():
    search = Recorder()
    search.fails = True
    searching = background(search, 1)
    searching.resume()
    with pytest.raises(MemoryError):
        searching.pause()


def test_a_thread_that_has_died_is_not_started_again():
    search = Recorder()
    search.fails = True
    searching = background(search, 1)
    searching.resume()
    searching._running.exception(10)
    with pytest.raises(MemoryError):
        searching.resume()
