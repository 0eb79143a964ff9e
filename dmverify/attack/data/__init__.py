"""The corpus of worst inputs that comes with dmverify (``attack.shipped``)."""
