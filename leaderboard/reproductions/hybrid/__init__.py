"""Reproductions of Tarnawski et al. 2021 (Piper)."""
