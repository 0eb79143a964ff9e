"""Black-box residual tomography: what a kernel's gradients say about its dS and its delta.

Every gradient mixes the row sums of dS: sum_j dK_j = scale sum_i T_i q^_i, T_i = R_i + cast_i being
the row sum of dS after its cast, which exact attention makes 0. Where the rows q^_i with a gradient
are orthogonal, each T_i is a projection; where a channel of K is one constant, dQ shows T_i
itself. Nothing but the outputs is read, so any kernel can be asked, and the error bar follows from
the format that its gradients are stored in. The kind of delta is then a regression (``kind``).

| file | what it does |
|---|---|
| setup, designs, walsh | the inputs |
| expected | the same call in float64, and what each kind of delta predicts |
| stored, allowance, readings | T_i from the gradients, with its error bar |
| scan | calls and repeats put together |
| regression, kind | which delta |
| tomogram | the run, its result, JSON |

Section: "Seeing inside a kernel" of the theory: shift invariance of softmax gives sum_j dS_ij = 0
(Tang et al., arXiv 2609.37852, appendix A.3). Units: T in units of dS; relative figures are divided
by sum_j |dS_ij| of the model. Not covered: a dK from which the mean over keys is subtracted, which
hides T (the probe form still sees it); sinks and biases; dropout.
"""
