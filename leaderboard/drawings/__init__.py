"""TODO leaderboard/drawings."""
