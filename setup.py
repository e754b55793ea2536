"""The packages of warpsmith: each root folder is one, with all that lies in it. The rest is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOTS = {
    "warpsmith": "src/warpsmith",
    "warpsmith.generator": "generator",
    "warpsmith.templates": "templates",
    "warpsmith.tuner": "tuner",
}

NATIVE_CALLS = Extension(
    "warpsmith.devices.native_calls", ["src/warpsmith/devices/native_calls.pyx"], extra_compile_args=["-g0"]
)
(native_calls,) = cythonize([NATIVE_CALLS], build_dir="build/cython")
# Each call is bound in Python where a C compiler is missing. cythonize drops the word where Extension gets it.
native_calls.optional = True

setup(
    packages=[
        name for root, folder in ROOTS.items() for name in (root, *(f"{root}.{each}" for each in find_packages(folder)))
    ],
    package_dir=ROOTS,
    ext_modules=[native_calls],
)
