"""Drawing primitives for terminals, HTML pages, SVG charts and matplotlib figures."""
