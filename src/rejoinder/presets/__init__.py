"""Presets: tools with some of their arguments fixed, in versions."""
