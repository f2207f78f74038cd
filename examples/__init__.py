"""Short scripts, all run by the tests."""
