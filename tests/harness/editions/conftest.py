"""A small edition in two parts, of a real campaign."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from shardmark.harness.editions.creating import create
from shardmark.harness.editions.folder import Edition
from shardmark.harness.results.database import Store


@pytest.fixture(scope="session")
def edition(small_campaign: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Edition:
    """An edition of the small campaign; not to be changed."""
    return create(list(small_campaign.values()), tmp_path_factory.mktemp("editions") / "2026.12")


@pytest.fixture
def changed(small_campaign: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a copy of the results of pipeline in which SQL statements changed something."""

    def change(*statements: str) -> Path:
        folder = tmp_path / "pipeline"
        shutil.copytree(small_campaign["pipeline"], folder)
        with closing(Store.open(folder, create=True)) as store, store.transaction() as db:
            for statement in statements:
                db.execute(statement)
        return folder

    return change
