"""Importers of other programs' files; every module of this folder whose name does not begin with an underscore is one.

Adding one needs no other change. ``shardmark import --help`` shows the first paragraph of its docstring. It offers:

``TRACK``               the track of the instances that it makes, unless an option ``track`` says another
``OPTIONS``             its options by name, each an `Option`
``read(path, **given)`` the instance of a file, or InputError; every option is given
``TELLS``               optional, True: ``read`` also takes ``tell``, which is called with each sentence that warns of a
                        possible misunderstanding
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType

from shardmark.instances.options import Option

__all__ = ["Option", "importers"]


@cache
def importers() -> Mapping[str, ModuleType]:
    """Every importer by its name on the command line."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}") for name in names}
