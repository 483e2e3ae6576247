"""Files that run, made from a plan: an ONNX model per stage, or the model with the plan noted in it."""
