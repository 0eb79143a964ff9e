"""How the frozen rows of ``dmverify.conformance.coverage`` were made."""
