"""Sphinx configuration; `make docs` builds the pages."""

from __future__ import annotations

import docofl_codec

project = "docofl_codec"
copyright = "the docofl_codec authors"
version = release = docofl_codec.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]

myst_heading_anchors = 3  # links to sections, with the forge's anchors

# Extras are not needed to read their interfaces.
autodoc_mock_imports = ["flwr", "matplotlib", "numcodecs", "rich", "sklearn", "torch", "zarr"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = f"docofl_codec {release}"
html_copy_source = False
