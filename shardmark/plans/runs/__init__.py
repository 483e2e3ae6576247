"""Runs of models with ONNX Runtime: times of operators, and of the stages of a plan."""
