"""How well released columns single out records."""
