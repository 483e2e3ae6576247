"""Settings of the tests of the front door, which are not about isolation."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def fast_runs(posix_for_auto: None) -> None:
    """Runs start fast, in supervisors that the tests share."""
