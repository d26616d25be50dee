"""The page's script: Vega-Lite as vl-convert bundles it, with the report's own script in it, and the policy for both.

No other script runs, whatever the page contains: the Content-Security-Policy names this one by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final

import vl_convert

__all__ = ["licence", "policy", "script"]

_DISTRIBUTION: Final = "vl-convert-python"
_PARTS: Final = ("Vega", "Vega-Lite", "Vega-Embed")
_HOLDERS: Final = (
    "copyright University of Washington Interactive Data Lab and contributors, under the licence below, "
    "and D3 and TopoJSON, copyright Mike Bostock, under the ISC licence"
)
_SNIPPET: Final = Path(__file__).parent / "templates" / "plots.js"
_ENDING: Final = re.compile(r"<(?=/script|!--)", re.IGNORECASE)
"""A `<` that a parser of HTML would not take for text of a script; in JavaScript it can only be in a string."""


@cache
def script() -> str:
    """Returns the text of the page's only script, a module of JavaScript; it has no dependency."""
    return _ENDING.sub(r"\\x3c", vl_convert.javascript_bundle(snippet=_SNIPPET.read_text()))


@cache
def policy() -> str:
    """Returns the content security policy of the page: this script, styles of the page, and nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    rules = ("default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


@cache
def licence() -> str:
    """Returns who holds the rights in the library, and the licence that came with it (BSD, three clauses)."""
    lite = vl_convert.get_vegalite_versions()[-1]
    versions = (vl_convert.get_vega_version(), lite, vl_convert.get_vega_embed_version())
    parts = ", ".join(f"{name} {number}" for name, number in zip(_PARTS, versions, strict=True))
    whose = f"{parts}, {_HOLDERS}; bundled by {_DISTRIBUTION} {version(_DISTRIBUTION)}, whose licence is:"
    own = next((file for file in distribution(_DISTRIBUTION).files or () if file.name == "LICENSE"), None)
    return f"{whose}\n\n{own.read_text() if own else ''}"
