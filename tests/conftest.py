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

# A shell starts what it puts into the background with Ctrl-C ignored, and so would be all programs under test.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A folder laid out OWNER/REPOSITORY/PATH with files of the contest, from SHARDMARK_MIRROR."""
    if "SHARDMARK_MIRROR" not in os.environ:
        pytest.skip("SHARDMARK_MIRROR names no mirror of the contest's files")
    return Path(os.environ["SHARDMARK_MIRROR"])
