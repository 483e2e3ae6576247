"""TODO leaderboard/reproductions/placement."""
