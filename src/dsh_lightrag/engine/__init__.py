"""The embedded engine: vectors, keywords and a graph over one SQLite file, as a plain library."""
