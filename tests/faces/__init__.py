"""The catalog as each framework shows it, over a real socket."""
