"""Formulas as MathML when the site is built, so that a page needs no script and no network.

The Markdown source writes TeX between dollar signs, which code hosts show as they are.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_content(text: str, **_: Any) -> str:
    """A hook of mkdocs: the page's HTML, its formulas converted."""
    text = BLOCK.sub(lambda found: _converted(found[1], "block"), text)
    return INLINE.sub(lambda found: _converted(found[1], "inline"), text)


def _converted(tex: str, display: str) -> str:
    return convert(html.unescape(tex), display=display)
