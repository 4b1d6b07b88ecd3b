"""Whether the error passing rate of an operator predicts which operator wins."""
