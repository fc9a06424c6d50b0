"""From a file's bytes to its text, with every reason why not as a value of its own."""
