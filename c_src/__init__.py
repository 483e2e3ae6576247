"""The C core: sources that `build.py` compiles, installed as well, as versions of solvers cover them."""
