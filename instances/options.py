"""Options of tracks and importers, and the rankings into which a track's options divide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import describe, require_int, require_number, require_text
from shardmark.instances.files.jsonfile import require_keys


@dataclass(frozen=True)
class Option:
    """An option with values of ``kind``, restricted to ``choices`` if there are any.

    The kind ``dict`` stands for named integers, ``bool`` for a flag.

    If ``mode`` is set, instances with different values are never ranked together. ``mode`` is the part of the
    ranking's name, with ``{}`` for the value; the default is named only by a plain ``{}``.
    """

    kind: type
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    mode: str = ""

    def place(self, value: Any) -> int:
        """Sort key of a value among the modes: its index in the choices, or 0 for the default and 1 for others."""
        return self.choices.index(value) if value in self.choices else int(value != self.default)


def division(options: Mapping[str, Option], values: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Sort key and name of the ranking of instances with these option values.

    Other keys of ``values`` are ignored. A track without modes has a single ranking with an empty name.
    """
    chosen = [(option, values.get(name, option.default)) for name, option in options.items() if option.mode]
    named = [option.mode.format(value) for option, value in chosen if option.mode == "{}" or value != option.default]
    return tuple(option.place(value) for option, value in chosen), ", ".join(named)


def read_options(
    document: Mapping[str, Any], given: Mapping[str, Any], options: Mapping[str, Option], source: str
) -> dict[str, Any]:
    """Validated options of a document, overridden by those ``given``.

    None stands for a default of None. InputError for an unknown option or a value of the wrong kind.
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


def non_default(instance: object, options: Mapping[str, Option]) -> dict[str, Any]:
    """The options of an instance that are not at their defaults."""
    values = {name: getattr(instance, name) for name in options}
    return {name: value for name, value in values.items() if value != options[name].default}


def refuse_other_choices(instance: object, options: Mapping[str, Option], source: str) -> None:
    """Raise InputError if an attribute named like an option is not one of its choices."""
    for name, option in options.items():
        if option.choices and getattr(instance, name) not in option.choices:
            expected = f"expected one of {', '.join(option.choices)}, found {getattr(instance, name)!r}"
            raise InputError(source, f"option {name}", expected)
