"""Composition: settings in, a running chat out. The only place that knows every implementation."""
