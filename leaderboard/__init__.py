"""The site: a folder of pages that opens from disk; it reads scores only."""

if __name__ != "shardmark.leaderboard":
    raise ImportError("the package leaderboard is now shardmark.leaderboard; solver files import from shardmark")
