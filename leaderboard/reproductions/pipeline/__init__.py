"""TODO leaderboard/reproductions/pipeline."""
