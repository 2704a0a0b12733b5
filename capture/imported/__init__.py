"""Routing records that someone else made and published, read as evidence `imported`."""
