"""Every page of the documentation, and the README, does what it says: files, commands, snippets, in an empty folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest
from pages import pages, replay

ROOT = Path(__file__).parents[2]
MODEL = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"

#: Pages on files of the reader's own, with files that stand for them.
GIVEN = {"docs/plans.md": {"model.onnx": MODEL}}
#: Pages that `make test` follows as well as the gate does: those of a new user, and of the verifiers.
ALWAYS = ("README.md", "docs/tracks/pipeline.md")


@pytest.mark.usefixtures("posix_for_auto")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ALWAYS else pytest.mark.gate)
        for name in (str(page.relative_to(ROOT)) for page in pages())
    ],
)
def test_it_can_be_followed_from_an_empty_folder(name, tmp_path):
    for file, source in GIVEN.get(name, {}).items():
        shutil.copyfile(source, tmp_path / file)
    replay(ROOT / name, tmp_path)
