"""Tell setuptools to compile the C core (cffi reads this key from setup.py only)."""

from setuptools import setup

setup(cffi_modules=["c_src/build.py:ffibuilder", "c_src/build.py:reader"])
