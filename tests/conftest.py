"""What all tests share: the mirror of the contest's files, and how hypothesis runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest

# A noisy machine must not fail a test, and a failure must come back: no deadline, the same examples every time.
hypothesis.settings.register_profile("shardmark", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("shardmark")

# They must reach the programs under test: a shell ignores Ctrl-C for what it puts into the background, nohup SIGHUP.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A folder laid out OWNER/REPOSITORY/PATH with files of the contest, from SHARDMARK_MIRROR."""
    if "SHARDMARK_MIRROR" not in os.environ:
        pytest.skip("SHARDMARK_MIRROR names no mirror of the contest's files")
    return Path(os.environ["SHARDMARK_MIRROR"])
