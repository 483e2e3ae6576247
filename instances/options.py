"""Options: what else a track's instances can be read with, and an importer's files; which of them divide a track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instances.errors import InputError
from instances.files.columns import describe, require_int, require_number, require_text
from instances.files.jsonfile import require_keys


@dataclass(frozen=True)
class Option:
    """Values of ``kind``, one of ``choices`` if there are any; ``default`` where none is given.

    Where ``mode`` is set, values are modes, and instances of different modes are never ranked together. It is what a
    value adds to the name of the ranking, ``{}`` stands for the value; a default is named by a plain ``{}`` only.
    """

    kind: type
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    mode: str = ""

    def place(self, value: Any) -> int:
        """Where a value stands among the modes: in the order of the choices, or after the default."""
        return self.choices.index(value) if value in self.choices else int(value != self.default)


def division(options: Mapping[str, Option], values: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Place among its track's rankings, and name, of the one that instances with these values are in.

    Other keys of ``values`` are ignored. The name is empty, and there is but one, in a track without modes.
    """
    chosen = [(option, values.get(name, option.default)) for name, option in options.items() if option.mode]
    named = [option.mode.format(value) for option, value in chosen if option.mode == "{}" or value != option.default]
    return tuple(option.place(value) for option, value in chosen), ", ".join(named)


def read_options(
    document: Mapping[str, Any], given: Mapping[str, Any], options: Mapping[str, Option], source: str
) -> dict[str, Any]:
    """Values of options, each of its kind, of those ``given`` and of a document's ``options``, which give way to them.

    None stands for a default that is None. InputError for an option that there is not, or a value of another kind.
    """
    carried = document.get("options", {})
    if not isinstance(carried, dict):
        raise InputError(source, "options", f"expected an object, found {describe(carried)}")
    require_keys(carried, source, "options", (), tuple(options))
    convert = {str: require_text, float: require_number, int: require_int}
    return {
        name: convert[options[name].kind](value, source, f"option {name}")
        for name, value in {**carried, **given}.items()
        if value is not None or options[name].default is not None
    }


def refuse_other_choices(instance: object, options: Mapping[str, Option], source: str) -> None:
    """InputError if an attribute of the name of an option is none of the option's choices."""
    for name, option in options.items():
        if option.choices and getattr(instance, name) not in option.choices:
            expected = f"expected one of {', '.join(option.choices)}, found {getattr(instance, name)!r}"
            raise InputError(source, f"option {name}", expected)
