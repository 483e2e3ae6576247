"""Files that run, made from a plan: ONNX models by stage, the model with the plan noted in it, or PyTorch modules."""
