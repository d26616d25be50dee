"""Builds the wheel pyspark-kraft: `python -m deploy.pyspark.build` (`make wheel`) writes it to build/wheel.

The wheel has the modules that the data source imports, and no others. They are put below the one package
`pyspark_kraft`, so that they never stand in the way of an installed `quorate`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp

__all__ = ["UV", "build", "moved", "needed"]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
OUT: Final = ROOT / "build" / "wheel"
UV: Final = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
"""The uv that runs this, else one that is installed, else that of `make setup`."""
PACKAGE: Final = "pyspark_kraft"
SOURCE: Final = "services.pipeline.source"
TARGETS: Final = {SOURCE: f"{PACKAGE}.source", "quorate": f"{PACKAGE}.quorate", "kraft": f"{PACKAGE}.kraft"}
"""Where each package of the tree is in the wheel."""
_FROM: Final = re.compile(r"^(\s*from )(services\.pipeline\.source|quorate|kraft)(?=[. ])", re.MULTILINE)
_WHOLE: Final = re.compile(r"^(\s*)import kraft$", re.MULTILINE)


def build(out: Path = OUT) -> Path:
    """Builds the wheel in the directory `out`, whose content is replaced; returns the wheel's path."""
    shutil.rmtree(out, ignore_errors=True)
    staged = out / "src"
    for module in needed():
        file = _file_of(module)
        package = next(each for each in TARGETS if _is_in(module, each))
        below = staged.joinpath(*(TARGETS[package] + module.removeprefix(package)).split("."))
        target = below / "__init__.py" if file.name == "__init__.py" else below.with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(moved(file.read_text()))
    (staged / PACKAGE / "__init__.py").write_text(moved((HERE / "default_source.py").read_text()))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(HERE / name, staged / name)
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", str(out), str(staged)], check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def needed() -> list[str]:
    """Lists the modules that the data source imports, directly or not, with their packages; of `kraft` all modules."""
    graph = grimp.build_graph("quorate", "kraft", "services", cache_dir=None)
    found: set[str] = {module for module in graph.modules if _is_in(module, "kraft")}
    open_ = {f"{SOURCE}.kraft"}
    while open_:
        module = open_.pop()
        found.add(module)
        nearby = {*graph.find_modules_directly_imported_by(module), *_packages(module)}
        open_ |= {each for each in nearby if any(_is_in(each, old) for old in TARGETS)} - found
    return sorted(found)


def moved(code: str) -> str:
    """Rewrites the imports of a module for its place in the wheel.

    >>> moved("from quorate.nouns import Epoch")
    'from pyspark_kraft.quorate.nouns import Epoch'
    >>> moved("import kraft")
    'from pyspark_kraft import kraft'

    """
    absolute = _FROM.sub(lambda found: found[1] + TARGETS[found[2]], code)
    return _WHOLE.sub(rf"\1from {PACKAGE} import kraft", absolute)


def _packages(module: str) -> Iterable[str]:
    names = module.split(".")
    return (".".join(names[:length]) for length in range(1, len(names)))


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _file_of(module: str) -> Path:
    below = (ROOT / "libs" if module.split(".")[0] in ("quorate", "kraft") else ROOT).joinpath(*module.split("."))
    return below / "__init__.py" if below.is_dir() else below.with_suffix(".py")


if __name__ == "__main__":
    build()
