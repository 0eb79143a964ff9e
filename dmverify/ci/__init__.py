"""dmverify in other people's tests: a pytest plugin, reports compared, files for CI servers."""
