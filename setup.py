"""The packages of warpsmith: each root folder is one, with all that lies in it. The rest is in pyproject.toml."""

from setuptools import find_packages, setup

ROOTS = {
    "warpsmith": "src/warpsmith",
    "warpsmith.generator": "generator",
    "warpsmith.templates": "templates",
    "warpsmith.tuner": "tuner",
}

setup(
    packages=[
        name for root, folder in ROOTS.items() for name in (root, *(f"{root}.{each}" for each in find_packages(folder)))
    ],
    package_dir=ROOTS,
)
