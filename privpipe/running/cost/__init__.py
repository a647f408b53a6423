"""What a run will cost, predicted before it starts."""

__all__: list[str] = []
