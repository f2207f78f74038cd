"""Every byte is counted, once for everybody who sends or fetches it."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.framework import Ledger, Link, Loop, Server, UniformParticipation
from tests.framework.problems import SIZE, gradient_step


def test_bytes_are_those_of_the_frames() -> None:
    server = Server(
        np.zeros(SIZE),
        UniformParticipation(10, 4, lead=3),
        anchor_codec=Ecuq(bits=2),
        correction_codec=Eden(bits=2),
        update_codec=Identity(),
        deploy_every=5,
    )
    sizes: dict[str, int] = {"anchor": 0, "late_anchor": 0}
    loop = Loop(server, gradient_step)
    for t in range(12):
        told = server.notify(t) if t % 5 else []
        before = {kind: server.ledger.total(kind) for kind in ("anchor", "late_anchor")}
        report = loop.step()
        frame = len(server.anchors.latest().frame)
        if told:
            late = sum(note.participation_round == t for note in told)
            sizes["late_anchor"] = server.ledger.total("late_anchor") - before["late_anchor"]
            sizes["anchor"] = server.ledger.total("anchor") - before["anchor"]
            assert sizes == {"anchor": (len(told) - late) * frame, "late_anchor": late * frame}
        assert report.bytes["update"] == 4 * len(Identity().encode(np.zeros(SIZE, np.float32)))
    ledger = server.ledger
    assert ledger.num_frames("correction") == ledger.num_frames("update") == 12 * 4
    assert ledger.downlink == ledger.total() - ledger.total("update")
    assert ledger.online_downlink == ledger.total("correction") + ledger.total("late_anchor")
    assert ledger.ratio_to_float32("update") == pytest.approx(1, abs=0.01)
    assert ledger.ratio_to_float32("correction") < 0.1
    by_client = [ledger.of_client(client) for client in range(10)]
    by_round = [ledger.of_round(t) for t in range(12)]
    for kind in ("anchor", "late_anchor", "correction", "update"):
        assert sum(row[kind] for row in by_client) == ledger.total(kind)
        assert sum(row[kind] for row in by_round) == ledger.total(kind)


def test_a_resync_is_online() -> None:
    server = Server(np.zeros(SIZE), UniformParticipation(4, 4, lead=5), deploy_every=1, capacity=2)
    loop = Loop(server, gradient_step)
    for _ in range(8):
        loop.step()
    latest = server.ledger.of_round(7)
    assert latest["late_anchor"] == latest["anchor"] > 0


def test_online_seconds_are_those_of_the_slowest_client() -> None:
    ledger = Ledger(100)
    ledger.record("correction", round_number=0, client=1, num_bytes=10**6)
    ledger.record("anchor", round_number=1, client=1, num_bytes=10**9)
    ledger.record("correction", round_number=1, client=1, num_bytes=1000)
    ledger.record("late_anchor", round_number=1, client=2, num_bytes=500)
    ledger.record("correction", round_number=1, client=2, num_bytes=500)
    ledger.record("update", round_number=1, client=2, num_bytes=250)
    fast, slow = Link(downlink=8000, uplink=8000), Link(downlink=1000, uplink=500)
    assert ledger.online_seconds({1: fast, 2: fast}) == pytest.approx(1.25)
    assert ledger.online_seconds({1: fast, 2: slow}) == pytest.approx(12)
    assert ledger.online_seconds({1: fast}) == pytest.approx(1)
    assert ledger.online_seconds({}) == 0


def test_links_have_a_speed() -> None:
    with pytest.raises(InvalidInputError, match="link"):
        Link(downlink=0, uplink=1)
