"""The client's side: a mod that rebuilds models before training and compresses updates after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from docofl_codec.codec import codec_from_config
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.framework.client import Client, Trained
from docofl_codec.framework.messages import Correction
from docofl_codec.framework.vectors import Vector
from docofl_codec.integrations.flower.store import AnchorStore
from docofl_codec.integrations.flower.wire import (
    ANCHOR_ACTION,
    EXACT,
    FRAMES,
    HEADER,
    Layout,
    frame_of,
    frames_record,
    header_record,
    read_header,
)

__all__ = ["DoCoFLMod", "docofl_mod"]


class DoCoFLMod:
    """A Flower mod for clients of :class:`DoCoFLStrategy`.

    An unchanged ``@app.train()`` gets the reconstructed weights, and what it returns is sent as a
    compressed update. Messages of other strategies pass through. Put it before mods that work on
    arrays, those of differential privacy say: they then see weights.

    Parameters
    ----------
    folder : path, optional
        Keep large anchors there instead of in the node's state, two at most for each run and node.
        Files that nobody has used for a week are deleted when the next one is written.
    min_bytes : int, default 1 MiB
        What is large.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    """

    def __init__(self, *, folder: Path | str | None = None, min_bytes: int = 1 << 20) -> None:
        self.folder = None if folder is None else Path(folder)
        self.min_bytes = min_bytes

    def register(self, app: ClientApp) -> ClientApp:
        """Let an app take anchors ahead of its rounds; return it."""
        app.query(ANCHOR_ACTION)(self.receive_anchor)
        return app

    def receive_anchor(self, message: Message, context: Context) -> Message:
        """Keep the anchor of a ``query.docofl_anchor`` message, if it has one, and report."""
        store = self._store(context)
        frame = frame_of(message.content, "anchor")
        if frame is not None:
            store.put(frame)
        return Message(RecordDict({HEADER: _report(store, context)}), reply_to=message)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Handle anchors and messages of training; let others pass.

        Anchors are no matter for mods that come after: some fail at messages without weights.
        """
        kind, _, action = message.metadata.message_type.partition(".")
        if (kind, action) == (MessageType.QUERY, ANCHOR_ACTION):
            return self.receive_anchor(message, context)
        is_training = kind == MessageType.TRAIN
        header = read_header(message.content) if is_training else None
        if header is None:
            return call_next(message, context)
        store = self._store(context)
        late_anchor = frame_of(message.content, "anchor")
        if late_anchor is not None:
            store.put(late_anchor)
        return _Participation(header, store, message, context, call_next).reply()

    def _store(self, context: Context) -> AnchorStore:
        return AnchorStore(context, self.folder, self.min_bytes)


docofl_mod = DoCoFLMod()


class _Participation:
    """One message of training."""

    def __init__(
        self,
        header: dict[str, Any],
        store: AnchorStore,
        message: Message,
        context: Context,
        call_next: ClientAppCallable,
    ) -> None:
        self._header = header
        self._store = store
        self._message = message
        self._context = context
        self._call_next = call_next
        self._layout = Layout.from_header(header["layout"])
        self._exact: ArrayRecord | None = None  # after training
        self._trained: Message | None = None

    def reply(self) -> Message:
        """Rebuild the model, train it, return the compressed update or what was wrong."""
        header = self._header
        client = Client(
            header["client"],
            codec_from_config(header["anchor"]),
            codec_from_config(header["correction"]),
            codec_from_config(header["update"]),
            header["seed"],
        )
        anchor_id = None
        if header["holds"] is not None:
            anchor_id, digest = header["holds"]
            anchor = self._store.get(digest)
            if anchor is None:
                return self._answer(is_missing=True)
            try:
                client.receive_anchor(anchor_id, anchor)
            except CodecError:  # damaged where it was kept
                return self._answer(is_missing=True)
        frame = frame_of(self._message.content, "correction")
        correction = Correction(header["round"], client.id, anchor_id, frame)
        try:
            update = client.participate(correction, self._train)
        except CodecError as error:
            return self._answer(failure=str(error))
        if update is None:
            assert self._trained is not None
            return self._trained
        return self._answer(update=update.frame)

    def _train(self, estimate: Vector) -> Trained | None:
        """Call the user's function with weights instead of frames."""
        exact = self._message.content.get(EXACT, ArrayRecord())
        assert isinstance(exact, ArrayRecord)
        before = self._layout.arrays(estimate, exact)
        content = RecordDict({self._header["arrays"]: before})
        for name, record in self._message.content.items():
            if name not in (HEADER, FRAMES, EXACT):
                content[name] = record
        base = self._layout.vector(before)
        self._message.content = content
        self._trained = self._call_next(self._message, self._context)
        if self._trained.has_error():
            return None
        records = list(self._trained.content.array_records.values())
        if len(records) != 1:
            raise InvalidInputError(f"arrays: found {len(records)} records, expected one")
        self._exact = self._layout.exact(records[0])
        after = self._layout.vector(records[0])
        after -= base
        return Trained(after)

    def _answer(
        self,
        *,
        update: bytes | None = None,
        is_missing: bool = False,
        failure: str = "",
    ) -> Message:
        report = _report(self._store, self._context, is_missing=is_missing, failure=failure)
        content = RecordDict({HEADER: report})
        if self._trained is not None and self._trained.has_content():
            for name, record in self._trained.content.items():
                if not isinstance(record, ArrayRecord):
                    content[name] = record
        if update is not None:
            content[FRAMES] = frames_record(self._layout.size, update=update)
            if self._exact:
                content[EXACT] = self._exact
        return Message(content, reply_to=self._message)


def _report(
    store: AnchorStore, context: Context, *, is_missing: bool = False, failure: str = ""
) -> Any:
    """Return the header of an answer: which anchors are here, and who this is."""
    fields: dict[str, Any] = {"holds": store.digests()}
    partition = context.node_config.get("partition-id")
    if isinstance(partition, int):
        fields["partition"] = partition
    if is_missing:
        fields["missing"] = True
    if failure:
        fields["failure"] = failure
    return header_record(fields)
