"""Reports: what a run found, as a value, and written for people, scripts and CI servers."""

from dmverify.conformance.report.report import Report, Summary

__all__ = ["Report", "Summary"]
