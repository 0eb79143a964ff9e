"""A report as one HTML file: ``page`` fills the template, ``charts`` computes what is drawn."""

from dmverify.ci.html.page import render

__all__ = ["render"]
