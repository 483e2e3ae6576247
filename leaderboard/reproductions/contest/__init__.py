"""TODO leaderboard/reproductions/contest."""
