"""Machine-checked proofs of the lemmas that the bounds cite. The only place that imports solvers."""
