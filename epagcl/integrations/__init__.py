"""Integrations with other libraries: scikit-learn, TensorBoard, Weights & Biases."""
