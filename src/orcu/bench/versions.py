"""Versions of the packages that compute runs and tables."""

import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("orcu", "torch", "numpy", "scipy", "scikit-learn", "lightgbm", "timm", "transformers")


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that runs and tables depend on; packages that are absent are left out.

    Example:
        >>> "numpy" in package_versions()
        True
    """
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
