"""Methods with one thing made otherwise, for comparisons. They are not registered."""
