"""CPUs that processes of one machine claim."""

from __future__ import annotations

import uuid

from shardmark.harness.campaign.cpus import Claims


def test_a_cpu_is_claimed_once():
    purpose = uuid.uuid4().hex
    with Claims(purpose) as mine, Claims(purpose) as theirs, Claims(uuid.uuid4().hex) as elsewhere:
        assert mine.take([3, 5, 7], 2) == [3, 5]
        assert theirs.take([3, 5, 7], 2) == [7]
        assert elsewhere.take([3, 5, 7], 2) == [3, 5]
    with Claims(purpose) as theirs:
        assert theirs.take([3, 5, 7], 3) == [3, 5, 7]
