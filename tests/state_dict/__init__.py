"""State dicts: what is promised of encode_state_dict and its format."""
