"""Chart data as types: what one drawing may hold. Templates draw them as SVG."""
