"""What capture and build share: the data contract, metrics and resampling; and the site builder.

Nothing below this package imports torch.
"""
