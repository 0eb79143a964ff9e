"""Settings of the whole suite."""

import hypothesis
import torch

# Two workers share two cores; torch's spinning threads make each other fifty times slower.
torch.set_num_threads(1)

hypothesis.settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
hypothesis.settings.load_profile("ci")
