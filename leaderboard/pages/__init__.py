"""The pages of the site: a module for each kind, with a function `pages` that yields path and content of each."""
