"""The routes of the native API by noun, each with the bodies it takes and the objects it gives."""
