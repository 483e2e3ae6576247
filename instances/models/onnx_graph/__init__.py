"""Parts of the reader of ONNX models: `loops` has the rules that turn a node into a nest of loops."""
