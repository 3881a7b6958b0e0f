"""What a model wrote, and what it says: the strict parser, and the published one."""
