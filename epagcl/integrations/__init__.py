"""Other libraries: scikit-learn pipelines, TensorBoard and Weights & Biases."""
