"""The catalog offered to each host: one file per host, and nothing but translation in them."""
