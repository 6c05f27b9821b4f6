"""The packages. pyproject.toml cannot add data/, which an installed possm_lite has inside, to those that it finds."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["possm_lite*"]), "possm_lite.data"])
