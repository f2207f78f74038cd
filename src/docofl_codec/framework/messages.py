"""What server and clients tell each other."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Correction", "Notification", "Update"]


@dataclass(frozen=True)
class Notification:
    """What a client learns in round s: that it takes part in round t."""

    client: int
    notification_round: int
    participation_round: int


@dataclass(frozen=True)
class Correction:
    """What a client downloads in its round.

    Attributes
    ----------
    round, client : int
        t and i.
    anchor_id : int or None
        The anchor ŷ that it is to be added to; None: it is the model itself.
    frame : bytes or None
        C_c(w_t - ŷ); None where clients train on the anchor as it is.
    """

    round: int
    client: int
    anchor_id: int | None
    frame: bytes | None


@dataclass(frozen=True)
class Update:
    """What a client sends back.

    Attributes
    ----------
    client, round : int
        Who sends it, and the round that it belongs to.
    frame : bytes
        C_g of new weights less old ones.
    num_samples : int, default 1
        Its weight where updates are weighted.
    """

    client: int
    round: int
    frame: bytes
    num_samples: int = 1
