"""TensorFlow's names of devices, full and partial, and the devices that a partial name matches.

``/job:worker/replica:0/task:1/device:GPU:2`` names one device; every part may be absent, and ``*`` stands for any job,
number or type. ``/gpu:2`` is an older way to write ``/device:GPU:2``; lower-case types mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PART = re.compile(
    r"""/(?: job:(?P<job>[^/:]+) | replica:(?P<replica>\d{1,9}|\*) | task:(?P<task>\d{1,9}|\*)
        | (?:device:)?(?P<type>(?!job:|replica:|task:|device:)[A-Za-z]\w*|\*)(?::(?P<index>\d{1,9}|\*))? )""",
    re.VERBOSE | re.ASCII,
)
EXAMPLE = "/job:worker/task:0/device:GPU:0"


def spec(text: str) -> Mapping[str, str] | None:
    """Parse a device name into job, replica, task, type and index; None if it is malformed or repeats a part."""
    parts: dict[str, str] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        found = {key: value for key, value in part.groupdict().items() if value} if part else {}
        if part is None or found.keys() & parts.keys() or text[part.end() : part.end() + 1] not in ("", "/"):
            return None
        parts.update(found)
        at = part.end()
    numbers = ("replica", "task", "index")
    parts |= {key: str(int(parts[key])) for key in numbers if parts.get(key, "*") != "*"}
    parts |= {"type": parts["type"].upper()} if "type" in parts else {}
    return {key: value for key, value in parts.items() if value != "*"}


class Devices:
    """The devices of a machine, by their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._specs = [spec(name) for name in names]
        self._meant: dict[str, list[int] | None] = {}

    def meant(self, text: str) -> list[int] | None:
        """Numbers of the devices that a name matches, possibly none; None for a malformed name."""
        if text not in self._meant:
            self._meant[text] = self._search(text)
        return self._meant[text]

    def _search(self, text: str) -> list[int] | None:
        named = [device for device, name in enumerate(self._names) if name == text]
        wanted = spec(text)
        if named or wanted is None:
            return named or None
        return [d for d, parts in enumerate(self._specs) if parts and wanted.items() <= parts.items()]


def random_device_name(device: int) -> str:
    """The name of a drawn device: tasks have one CPU and four GPUs each."""
    task, place = divmod(device, 5)
    return f"/job:worker/replica:0/task:{task}/device:{f'GPU:{place - 1}' if place else 'CPU:0'}"
