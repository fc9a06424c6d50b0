"""The DeepSeek Harness, the real one from PyPI, with a script in place of its model."""
