"""Versions of the standard's operator set: which are read, and the conversion of old ones."""

from __future__ import annotations

from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.onnx_graph.functions import sentence

#: Operators broadcast as NumPy does since this version; before, attributes said how, and shapes were attributes.
OLDEST = 7


def modern(model: Any, source: str) -> Any:
    """An `onnx.ModelProto` in version `OLDEST` of the operator set, or the model itself if its version is newer.

    Raises InputError for a version that the installed package does not know or cannot convert.
    """
    from onnx import defs, version_converter

    newest = defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain not in ("", "ai.onnx") or OLDEST <= opset.version <= newest:
            continue
        if not 1 <= opset.version <= newest:
            expected = f"expected at most version {newest}, which the installed package onnx knows"
            raise InputError(source, "opset_import", f"{expected}, found {opset.version}")
        try:
            return version_converter.convert_version(model, OLDEST)
        except Exception as error:  # of onnx's own kinds, which have no common base
            why = sentence(error).replace("$", "")
            expected = f"expected operator set {OLDEST} or newer, found {opset.version}, which onnx cannot convert"
            raise InputError(source, "opset_import", f"{expected} ({why}): export the model anew") from None
    return model
