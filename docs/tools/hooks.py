"""What mkdocs does beside rendering: pages from elsewhere in the repository, formulas as MathML.

A page that says ``--8<-- "FILE"`` is that file of the repository, so that each text stands once;
its links go to the pages of the files that it names. Formulas are TeX in the source, which code
hosts show as they are, and MathML on the site, which needs no script and no network.
"""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).parents[2]
INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.M)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_markdown(text: str, **_: Any) -> str:
    """A hook of mkdocs: files in place of the lines that name them."""
    return INCLUDE.sub(lambda found: _file(found[1]), text)


def on_page_content(text: str, **_: Any) -> str:
    """A hook of mkdocs: the page's HTML, its formulas converted."""
    text = BLOCK.sub(lambda found: _converted(found[1], "block"), text)
    return INLINE.sub(lambda found: _converted(found[1], "inline"), text)


def _file(name: str) -> str:
    """The text of a file of the repository, its links those of a page."""
    folder, pages = Path(name).parent, _pages()

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(folder / found[1])
        return f"]({pages.get(target, target.removeprefix('docs/'))}"

    return LINK.sub(link, (ROOT / name).read_text(encoding="utf-8"))


def _pages() -> dict[str, str]:
    """The page of every file that one includes."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    return {name: page for page, text in texts.items() for name in INCLUDE.findall(text)}


def _converted(tex: str, display: str) -> str:
    return convert(html.unescape(tex), display=display)
