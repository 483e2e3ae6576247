"""The history of the project's own times and gaps, from what asv measured: `make asv` draws it as pages of the site."""
