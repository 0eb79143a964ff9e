"""Reports on kernels that others ship: asked on a GPU once, judged on any CPU from what they said.

``dmverify lab ask OUT`` runs every peer on a Hopper machine;
``dmverify lab judge OUT`` judges the answers anywhere.
"""
