"""Architectures of networks as models, and what builds them."""
