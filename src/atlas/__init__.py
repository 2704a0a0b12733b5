"""What capture and build share: the data contract, metrics and resampling; and the site builder.

Nothing below this package imports torch.
"""

VERSION = "0.1.0"
"""As pyproject.toml and CITATION.cff have it; a test holds the three together."""
