"""An app for the tests: NumPy alone, so that processes start fast."""
