"""Files of the committed captures: the tensors, their manifest and the text they come from."""
