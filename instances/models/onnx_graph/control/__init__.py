"""Loops and branches of an ONNX model, replaced by the nodes that they run."""
