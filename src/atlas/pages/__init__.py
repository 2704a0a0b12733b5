"""Pages: each module turns datasets into documented contexts, each template shows one."""
