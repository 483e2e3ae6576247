"""The descendants of a supervisor: waited for and killed, with those that start meanwhile."""

from __future__ import annotations

import os
import resource
import time

from shardmark.harness.sandbox.backends.process_tree import ProcessTree

MIB = 1 << 20


def test_ended_processes_leave_user_and_system_time_and_the_largest_memory(monkeypatch):
    small, large = (resource.struct_rusage((user, system, kib, *[0] * 13)) for user, system, kib in RUSAGE)
    ended = iter([(7, 0, large), (8, 1 << 8, small), (0, 0, small)])  # 0: the others still run
    monkeypatch.setattr(os, "wait4", lambda pid, options: next(ended))
    tree = ProcessTree()
    assert tree.reap() == {7: 0, 8: 1}
    assert (tree.cpu_s, tree.largest) == (1.5 + 0.25 + 2.0 + 0.5, 3 * MIB)
    tree.close()


RUSAGE = [(1.5, 0.25, 1024), (2.0, 0.5, 3 * 1024)]  # seconds of user and system, KiB


def test_a_kill_waits_until_no_descendant_is_left():
    pid = os.fork()
    if pid == 0:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        tree = ProcessTree()
        if list(tree.members()) != [child]:
            os._exit(2)
        tree.kill_and_wait(child)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
