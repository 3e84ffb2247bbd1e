"""Bodies of requests in both lanes of HTTP/2: the same frames, cut at the same places, are reported and answered alike, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.fuzz_http2 import SETTINGS, block, frame, frames, literal
from svc.protocol.events import ProtocolFailed, RequestFailed
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2
from svc.protocol.http2_frames import DATA, END_HEADERS, END_STREAM, PADDED, PREFACE, RST_STREAM, WINDOW_UPDATE, WITH_PRIORITY

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
STREAMS = 3
LIMITS = Limits(max_body_size=150_000)

Frame = tuple[int, int, int, bytes]


@dataclass(frozen=True)
class Step:
    """What the client sends, and what the caller of the driver does next."""

    kind: str
    stream: int
    size: int = 0
    is_last: bool = False
    padding: int | None = None


streams = st.integers(0, STREAMS - 1)
sizes = st.one_of(st.integers(0, 20), st.sampled_from((0, 5, 1000, 16_000, 16_384)))
steps = st.one_of(
    st.builds(Step, st.just("begin"), streams, st.sampled_from((-1, -1, 5, 1000, 32_000, 200_000))),
    st.builds(Step, st.just("data"), streams, sizes, st.booleans(), st.sampled_from((None, None, None, 0, 3, 255))),
    st.builds(Step, st.just("data"), streams, st.just(16_384)),
    st.builds(Step, st.sampled_from(("trailers", "split trailers", "padded trailers", "no end", "cut trailers")), streams),
    st.builds(Step, st.sampled_from(("reset", "pause", "resume", "respond", "hurry", "send", "continue")), streams),
)


class Lane:
    """A driver and what it said in the last step."""

    def __init__(self, express: bool) -> None:
        self.driver = Http2(LIMITS, express, max_streams=STREAMS)
        self.answered: set[int] = set()
        self.over: set[int] = set()
        self.receive([PREFACE + SETTINGS])

    def receive(self, pieces: list[bytes]) -> list[str]:
        told = []
        for piece in pieces:
            for event in self.driver.receive_data(piece):
                told.append("failed" if type(event) is ProtocolFailed else repr(event))
                if type(event) is RequestFailed:
                    self.answered.add(event.stream_id)
                    self.driver.fail(event.stream_id, event.error, [], b"sorry", DATE)
            self.driver.check()
        return told

    def respond(self, stream_id: int) -> None:
        if stream_id not in self.answered:
            self.answered.add(stream_id)
            self.driver.respond(stream_id, 200, [("X", "y")], b"ok", DATE)

    def output(self, ended: set[int]) -> list[Frame]:
        """Its frames, without windows of streams that have ended, where none is needed."""
        found = list(frames(self.driver.data_to_send()))
        self.driver.finished.clear()
        self.driver.check()
        return sorted(item for item in found if item[0] != WINDOW_UPDATE or item[2] not in ended)


class Conversation:
    """The frames of the client, which does what no client should, but keeps to the order of streams."""

    def __init__(self) -> None:
        self.now: dict[int, int] = {}  # the number in a step -> the stream
        self.ended: set[int] = set()
        self._next = 1

    def frames_of(self, step: Step) -> bytes:
        if step.kind == "begin":
            self.now[step.stream] = self._next
            self._next += 2
            length = [("content-length", str(step.size))] if step.size >= 0 else []
            return frame(1, END_HEADERS, self.now[step.stream], block(*length, method="PUT"))
        stream_id = self.now.get(step.stream)
        if stream_id is None:
            return b""
        if step.kind == "data":
            return self._data(stream_id, step)
        if step.kind == "reset":
            self.ended.add(stream_id)
            return frame(RST_STREAM, 0, stream_id, bytes(4))
        return self._trailers(stream_id, step.kind)

    def _data(self, stream_id: int, step: Step) -> bytes:
        flags, content = END_STREAM if step.is_last else 0, b"x" * step.size
        if step.padding is not None:
            room = max(0, 16_383 - step.padding)
            flags, content = flags | PADDED, bytes((step.padding,)) + content[:room] + bytes(step.padding)
        if step.is_last:
            self.ended.add(stream_id)
        return frame(DATA, flags, stream_id, content)

    def _trailers(self, stream_id: int, kind: str) -> bytes:
        fields = literal([("x-sum", "1")])
        self.ended.add(stream_id)
        match kind:
            case "trailers":
                return frame(1, END_HEADERS | END_STREAM, stream_id, b"\x40\x01a\x01b" + fields)
            case "split trailers":
                return frame(1, END_STREAM, stream_id, fields[:3]) + frame(9, 0, stream_id) + frame(9, END_HEADERS, stream_id, fields[3:])
            case "padded trailers":
                flags = END_HEADERS | END_STREAM | PADDED | WITH_PRIORITY
                return frame(1, flags, stream_id, b"\x02" + bytes(5) + fields + bytes(2))
            case "no end":
                return frame(1, END_HEADERS, stream_id, fields)
            case "cut trailers":
                return frame(1, END_STREAM, stream_id, fields[:3])
            case _:
                return b""


def act(lane: Lane, kind: str, stream_id: int) -> None:
    match kind:
        case "pause":
            lane.driver.pause(stream_id)
        case "resume":
            lane.driver.resume(stream_id)
        case "respond":
            lane.respond(stream_id)
        case "hurry":
            lane.driver.reset(stream_id)
        case "continue":
            lane.driver.send_continue(stream_id)


def split(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.lists(steps, max_size=40), st.sampled_from((1 << 20, 1 << 20, 5000, 100, 7)))
@example([Step("begin", 0), Step("pause", 0), *[Step("data", 0, 16_384)] * 4], 1 << 20)
@example([Step("begin", 0), Step("pause", 0), *[Step("data", 0, 16_000), Step("send", 0)] * 4, Step("resume", 0), Step("send", 0)], 1 << 20)
@example([Step("begin", 0), *[Step("data", 0, 16_384), Step("send", 0)] * 8], 1 << 20)
@example([Step("begin", 0), Step("respond", 0), Step("data", 0, 5), Step("trailers", 0), Step("begin", 0), Step("data", 0, 5, True)], 7)
@example([Step("begin", 0), Step("cut trailers", 0), Step("respond", 0)], 100)
@example([Step("begin", 0), Step("reset", 0), Step("trailers", 0), Step("data", 0, 9)], 100)
@example([*[Step("begin", 0)] * 4, Step("data", 0, 9), Step("trailers", 0)], 100)
@example([Step("begin", 0, 5), Step("data", 0, 6), Step("data", 0, 0, True, 3), Step("no end", 0)], 100)
def test_both_lanes(conversation: list[Step], size: int) -> None:
    express, other = lanes = Lane(True), Lane(False)
    client = Conversation()
    held = b""  # sent with the next step that is not the client's
    for step in [*conversation, Step("send", 0)]:
        if (data := client.frames_of(step)) or step.kind in ("begin", "data"):
            held += data
            continue
        told = [lane.receive(split(held, size)) for lane in lanes]
        assert told[0] == told[1]
        held = b""
        stream_id = client.now.get(step.stream)
        if stream_id is not None:
            for lane in lanes:
                act(lane, step.kind, stream_id)
        assert express.driver.should_close == other.driver.should_close
        said = [lane.output(client.ended) for lane in lanes]
        if express.driver.should_close:  # what h2 said before that depends on the code of the error
            return
        assert said[0] == said[1]
