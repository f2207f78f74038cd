"""DoCoFL on Flower: a strategy around any stock one, and a mod for the clients.

On the server:

    strategy = DoCoFLStrategy(FedAvg(fraction_train=0.5), deploy_every=10, lead=2)

and on the clients, whose ``@app.train()`` stays as it is:

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))

The guide is docs/guides/flower.md. Which file does what:

================  ==============================================================================
``strategy``      the rounds, on :class:`docofl_codec.framework.Server`
``inner``         what the wrapped strategy wants, and which ones are refused
``nodes``         which node is which client, what it holds, messages that are on their way
``replies``       what replies must hold, and how large a change may be
``mod``           the client's side, on :class:`docofl_codec.framework.Client`
``store``         anchors in a node's state and on its disk
``wire``          what messages look like
================  ==============================================================================
"""

from __future__ import annotations

from docofl_codec.integrations._extras import needs

with needs("flwr", extra="flower"):
    import flwr.app  # noqa: F401

from docofl_codec.integrations.flower.mod import DoCoFLMod, docofl_mod
from docofl_codec.integrations.flower.strategy import DoCoFLStrategy

__all__ = ["DoCoFLMod", "DoCoFLStrategy", "docofl_mod"]
