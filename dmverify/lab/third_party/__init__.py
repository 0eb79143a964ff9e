"""Reports on kernels that others ship: asked on a GPU once, judged on any CPU from what they said.

``python -m dmverify.lab.third_party ask OUT`` runs every peer on a Hopper machine;
``python -m dmverify.lab.third_party check OUT`` judges the answers anywhere.
"""
