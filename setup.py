"""The packages of warpsmith: each root folder is one, with all that lies in it. The rest is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOTS = {
    "warpsmith": "src/warpsmith",
    "warpsmith.generator": "generator",
    "warpsmith.templates": "templates",
    "warpsmith.tuner": "tuner",
}

EXTENSIONS = cythonize(
    [
        Extension(f"warpsmith.{name}", [f"src/warpsmith/{name.replace('.', '/')}.pyx"], extra_compile_args=["-g0"])
        for name in ("devices.native_calls", "devices.native_tensors", "torch.native_layers")
    ],
    build_dir="build/cython",
)
for each in EXTENSIONS:
    # Python code does the same where a C compiler is missing. cythonize drops the word where Extension gets it.
    each.optional = True

setup(
    packages=[
        name for root, folder in ROOTS.items() for name in (root, *(f"{root}.{each}" for each in find_packages(folder)))
    ],
    package_dir=ROOTS,
    ext_modules=EXTENSIONS,
)
