"""A study as one HTML page that needs nothing beside it: text, tables, pictures inside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmverify.studies.plot import Plot
    from dmverify.studies.study import Table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
.wide { overflow-x: auto }
svg { max-width: 100%; height: auto }
.note { color: #444; max-width: 60rem }
"""


def html_page(
    title: str,
    method: Sequence[str],
    tables: Sequence[Table],
    pictures: Sequence[tuple[Plot, str]],
) -> str:
    """The page's text."""
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f'<p class="note">{escape(paragraph)}</p>' for paragraph in method]
    parts += [_figure(plot, svg) for plot, svg in pictures]
    parts += [_table(table) for table in tables]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}'
        f"</title>\n<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _figure(plot: Plot, svg: str) -> str:
    drawing = svg[svg.index("<svg") :]  # without the XML prologue
    return f"<figure>{drawing}<figcaption>{escape(plot.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.columns)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2>\n{note}<div class="wide"><table><thead><tr>{head}</tr>'
        f"</thead>\n<tbody>{rows}</tbody></table></div>"
    )
