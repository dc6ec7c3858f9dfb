"""The version, in its own module so that library code need not import the root package."""

__version__ = "0.2.0"
