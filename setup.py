"""The packages of warpsmith: each root folder is one, with all that lies in it. The rest is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOTS = {
    "warpsmith": "src/warpsmith",
    "warpsmith.generator": "generator",
    "warpsmith.templates": "templates",
    "warpsmith.tuner": "tuner",
}

# Optional: where there is no C compiler, calls are done in Python alone.
NATIVE_CALLS = Extension("warpsmith.devices.native_calls", ["src/warpsmith/devices/native_calls.pyx"], optional=True)

setup(
    packages=[
        name for root, folder in ROOTS.items() for name in (root, *(f"{root}.{each}" for each in find_packages(folder)))
    ],
    package_dir=ROOTS,
    ext_modules=cythonize([NATIVE_CALLS], build_dir="build/cython"),
)
