"""Reads protocol buffers in text format, in one pass, with a schema of the fields to keep.

The grammar is that of https://protobuf.dev/reference/protobuf/textformat-spec without features that no graph file uses:
extensions, expanded Any messages, lists of messages, and numbers with a fraction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from shardmark.instances.errors import InputError, TooLarge
from shardmark.instances.files.jsonfile import line_and_column

MAX_VALUES = 1 << 24  # values and messages; each takes up to 250 bytes of memory
#: Under this key a message has the index of its first character in the text.
AT = "@"
#: Schema of a field that is dropped after a check of its syntax; a message is dropped with all its content.
SKIPPED = None


class Word(str):
    """The kind of an enumeration field: the name of a value, or its number as written."""


#: A field's kind: int (64 bits, signed), str, bytes, bool or `Word`; a schema for a message; one of them in a list if
#: it may repeat.
Kind = Any
Schema = dict[str, Kind]
Message = dict[str, Any]

_GAP = r"(?:\s|\#[^\n]*+)*+"
_TEXT = r'"(?:[^"\\\n]|\\.)*+"' + r"|'(?:[^'\\\n]|\\.)*+'"
_SCALAR = rf"(?:{_TEXT})(?:{_GAP}(?:{_TEXT}))*+|(?:-{_GAP})?+[\w.](?:[\w.]|(?<=[eE])[+-])*+"
_FIELD = re.compile(
    rf"""{_GAP}(?:
        (?P<name>[A-Za-z_]\w*+){_GAP}(?:
            :?{_GAP}(?P<open>[{{<])
          | :{_GAP}(?P<scalar>{_SCALAR})
          | :{_GAP}\[{_GAP}(?P<list>(?:(?:{_SCALAR}){_GAP}(?:,{_GAP}(?:{_SCALAR}){_GAP})*+)?+)\]
        ){_GAP}[,;]?+
      | (?P<close>[}}>]){_GAP}[,;]?+
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)
_SCALARS = re.compile(_SCALAR, re.VERBOSE | re.ASCII)
_TEXTS = re.compile(_TEXT)
_WORD = re.compile(r"[A-Za-z_]\w*+|[0-9]++", re.ASCII)
_INTEGER = re.compile(rf"(-?){_GAP}(?:(0[xX][0-9a-fA-F]++)|(0[0-7]*+)|([1-9][0-9]*+))", re.VERBOSE | re.ASCII)
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv?\\'\"])|(.?))", re.DOTALL
)
_LETTERS = dict(zip(b"abfnrtv?\\'\"", b"\a\b\f\n\r\t\v?\\'\"", strict=True))
_BOOLEANS = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}


def parse(text: str, source: str, schema: Schema) -> Message:
    """Parse the message in ``text``: fields as in the schema, with lists of values for fields that may repeat.

    Raises InputError with the line and column if the text does not fit the schema: an unknown field, a repeated one, a
    value of the wrong kind, an unclosed string or brace. More than `MAX_VALUES`
    values are refused.
    """
    if len(text) > MAX_VALUES and sum(map(text.count, "{<:,")) > MAX_VALUES:
        raise TooLarge(source, "", f"expected at most {MAX_VALUES} values and messages")
    return _Parser(text, source, schema).message()


@dataclass(frozen=True, slots=True)
class _Place:
    """A message being read: its opening brace, its content, and the schema of its fields."""

    brace: str
    message: Message
    schema: Schema | None


class _Parser:
    def __init__(self, text: str, source: str, schema: Schema) -> None:
        self._text, self._source = text, source
        self._places = [_Place("", {AT: 0}, schema)]

    def message(self) -> Message:
        """Read fields up to the end of the text."""
        match, position = _FIELD.match, 0
        while True:
            field = match(self._text, position)
            if field is None:
                self._refuse_syntax(position)
            position = field.end()
            if field.lastgroup == "close":
                self._close(field)
            elif field.lastgroup == "end":
                break
            else:
                self._add(field)
        if len(self._places) > 1:
            self._refuse(self._places[-1].message[AT], "expected the message to be closed")
        return self._places[0].message

    def _add(self, field: re.Match[str]) -> None:
        """Keep the values of a field, or begin to read its message."""
        name, place = field["name"], self._places[-1]
        kind, repeats = self._kind(field, place.schema)
        values = [self._open(field, kind)] if field.lastgroup == "open" else self._scalars(field, kind)
        if kind is SKIPPED:
            return
        if repeats:
            place.message.setdefault(name, []).extend(values)
        elif name in place.message or len(values) != 1:
            self._refuse(field.start("name"), f"expected one value for {name}")
        else:
            place.message[name] = values[0]

    def _kind(self, field: re.Match[str], schema: Schema | None) -> tuple[Kind, bool]:
        """Return the type of a field's values, and whether the field may repeat."""
        if schema is None:
            return SKIPPED, True
        if field["name"] not in schema:
            found = f"expected one of the fields {', '.join(schema)}, found {field['name']}"
            self._refuse(field.start("name"), found)
        kind = schema[field["name"]]
        return (kind[0], True) if isinstance(kind, list) else (kind, False)

    def _open(self, field: re.Match[str], kind: Kind) -> Message:
        """Begin the message of a field."""
        if kind is not SKIPPED and not isinstance(kind, dict):
            self._refuse(field.start("open"), f"expected {_a(kind)} for {field['name']}, found a message")
        message: Message = {AT: field.start("name")}
        self._places.append(_Place(field["open"], message, kind))
        return message

    def _scalars(self, field: re.Match[str], kind: Kind) -> list[Any]:
        """The values of a field, several if it is a list."""
        if kind is SKIPPED:
            return []
        if isinstance(kind, dict):
            self._refuse(field.start(str(field.lastgroup)), f"expected a message for {field['name']}")
        scalar = field["scalar"]
        if scalar is not None:
            return [self._value(scalar, kind, field.start("scalar"))]
        start = field.start("list")
        return [self._value(match[0], kind, start + match.start()) for match in _SCALARS.finditer(field["list"])]

    def _value(self, scalar: str, kind: type, position: int) -> Any:
        value: Any = None
        if kind is int:
            value = _integer(scalar)
        elif kind is bool:
            value = _BOOLEANS.get(scalar)
        elif kind is Word:
            value = scalar if _WORD.fullmatch(scalar) else None
        elif scalar[0] in "\"'":
            value = _string([match[0][1:-1] for match in _TEXTS.finditer(scalar)], kind)
        if value is None:
            line = " ".join(scalar.split())  # a comment may follow the sign
            found = line if len(line) <= 40 else f"{line[:37]}..."
            self._refuse(position, f"expected {_a(kind)}, found {found}")
        return value

    def _close(self, field: re.Match[str]) -> None:
        brace = self._places.pop().brace
        if field["close"] != {"{": "}", "<": ">", "": ""}[brace]:
            expected = "a field" if not brace else {"{": "'}'", "<": "'>'"}[brace]
            self._refuse(field.start("close"), f"expected {expected}, found {field['close']!r}")

    def _refuse_syntax(self, position: int) -> NoReturn:
        """Quote the rest of the line on which a field was expected."""
        gap = re.compile(_GAP, re.VERBOSE).match(self._text, position)
        start = gap.end() if gap else position
        found = self._text[start : start + 40].split("\n")[0]
        self._refuse(start, f"expected a field such as `id: 1` or `node {{ ... }}`, found {found!r}")

    def _refuse(self, position: int, expected: str) -> NoReturn:
        raise InputError(self._source, line_and_column(self._text, position), expected)


def _a(kind: Kind) -> str:
    text = "a string in quotes"
    words = {int: "an integer from -2^63 to 2^63 - 1", bool: "true or false", str: text, bytes: text}
    return words.get(kind, "a name without quotes")


def _integer(scalar: str) -> int | None:
    """A literal's value; None for another kind or more than 64 bits."""
    if len(scalar) < 19 and scalar[0] != "0" and scalar.isdecimal():  # the most common case
        return int(scalar)
    literal = _INTEGER.fullmatch(scalar)
    if literal is None or len(scalar) > 1000:  # gaps and comments after the sign count
        return None
    sign, hexadecimal, octal, decimal = literal.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    value = -value if sign else value
    return value if -(2**63) <= value < 2**63 else None


def _string(parts: Sequence[str], kind: type) -> str | bytes | None:
    """The concatenation of adjacent literals; None if an escape is invalid, or a text is not UTF-8."""
    joined = "".join(parts)
    if "\\" not in joined:
        return joined if kind is str else joined.encode()
    try:
        content = b"".join(_ESCAPE.sub(_unescaped, part.encode()) for part in parts)
        return content.decode() if kind is str else content
    except (UnicodeDecodeError, ValueError, OverflowError):
        return None


def _unescaped(match: re.Match[bytes]) -> bytes:
    """The bytes of an escape sequence; ValueError if it is invalid."""
    octal, hexadecimal, short, long, letter, _ = match.groups()
    if letter:
        return bytes([_LETTERS[letter[0]]])
    if octal or hexadecimal:
        return bytes([int(octal, 8) if octal else int(hexadecimal, 16)])
    if short or long:
        return chr(int(short or long, 16)).encode()
    raise ValueError("no escape sequence")
