"""The referee: runs solvers under limits, verifies what they report, stores and scores it."""
