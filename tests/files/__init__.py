"""Files of tensors, and the commands for them."""
