"""TODO leaderboard/reproductions/scheduling."""
