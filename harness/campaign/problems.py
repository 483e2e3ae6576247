"""Problems: the instances of a campaign, each read when it is needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shardmark.harness.verify.certificates import Finding, apart
from shardmark.instances import InputError, load_hashed
from shardmark.instances.catalog import Entry
from shardmark.instances.files.jsonfile import read_bytes, sha256


@dataclass(frozen=True)
class Problem:
    """An instance of a campaign: its path, its options, published results, and the catalog's limit, if any.

    ``catalogued`` is True if users name it by its id, not by its path.
    """

    id: str
    path: Path
    track: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    catalogued: bool = False
    _loading: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, entry: Entry, path: Path) -> Problem:
        """Return the problem of a catalog entry whose file is at ``path``."""
        return cls(entry.id, path, entry.track, entry.options, entry.published, entry.time_limit_s, catalogued=True)

    @property
    def instance(self) -> Any:
        """The parsed instance; read once, even if two threads need it at the same time."""
        with self._loading:
            return self._instance

    @cached_property
    def _instance(self) -> Any:
        try:
            instance, checksum = load_hashed(self.path, self.track, **self.options)
        except InputError as error:
            if self.catalogued and error.place.startswith("option "):  # the user named an id, and gave the option
                raise type(error)(self.id, error.place, error.expected) from None
            raise
        self.__dict__.setdefault("content_hash", checksum)  # the content that runs must read as well
        return instance

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Facts of the instance; they stay when the instance is forgotten."""
        return dict(self.instance.summary())

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the decompressed file."""
        return sha256(read_bytes(self.path))

    @cached_property
    def checksum(self) -> str:
        """Identity of content, track and options together: a file of `placement` may also be read as a `pipeline`."""
        given = {key: value for key, value in self.options.items() if value is not None}
        track = self.track or self.instance.track
        return sha256(f"{self.content_hash} {track} {json.dumps(given, sort_keys=True)}".encode())

    def check_certificate(self, document: Mapping[str, Any]) -> Finding:
        """Check a certificate of a lower bound in a process of its own, see `certificates.apart`."""
        track = self.track or self.instance.track
        return apart.check(self.path, track, self.options, self.content_hash, self.checksum, document)

    def holding(self, instance: Any, content_hash: str) -> Problem:
        """Return the same problem with its ``instance``, parsed from decompressed content with this SHA-256."""
        read = replace(self)
        read.__dict__.update(_instance=instance, content_hash=content_hash)
        return read

    def forget(self) -> None:
        """Drop the parsed instance from memory."""
        self.__dict__.pop("_instance", None)
