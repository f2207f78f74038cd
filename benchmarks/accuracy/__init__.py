"""The accuracy tables and studies on real data, and what is claimed of them."""
