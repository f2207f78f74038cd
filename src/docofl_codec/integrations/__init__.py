"""DoCoFL on engines that users already have, each with an extra of its own.

=====================  =======================================  ===============================
module                 what                                     extra
=====================  =======================================  ===============================
``flower``             a strategy and a client mod              ``docofl_codec[flower]``
``ddp``                a communication hook for torch's DDP     ``docofl_codec[torch]``
``numcodecs``          codecs for zarr 2 and other stores       ``docofl_codec[zarr]``
``zarr``               codecs for Zarr format 3                 ``docofl_codec[zarr]``
=====================  =======================================  ===============================

Nothing here is imported by the rest of the package.
"""
