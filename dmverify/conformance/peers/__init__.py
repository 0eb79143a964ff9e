"""Reports on kernels that others ship: asked on a GPU once, judged on any CPU from what they said.

``python -m dmverify.conformance.peers ask OUT`` runs every peer on a Hopper machine;
``python -m dmverify.conformance.peers check OUT`` judges the answers anywhere.
"""
