"""Blobs: what they are made of, how they are read, what records keep of them."""

import asyncio
import gc
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from svc.errors import BadValue, ServerError
from svc.store.blobs import INLINE_BELOW, Blob, BlobFiles, Helper, UnsavedContent, blobs_in, create_blob, save, save_now
from svc.store.blobs import blob as blob_module
from svc.store.values.records import decode, decode_json, encode, has_files, lsn_of, projection, raw_payload

LARGE = bytes(range(256)) * 512  # 128 KiB


def stored(value: object) -> Any:
    """As it comes back from a record."""
    return decode(encode({"a": value}, 1.0, 1, None))["a"]


def saved(files: BlobFiles, data: Any = LARGE, **options: Any) -> Blob:
    blob = create_blob(data, **options)
    save_now(blob, files)
    if blob.file is not None:
        blob.file.keep()
    return blob


class TestMaking:
    @pytest.mark.parametrize(
        ("data", "content", "type_"),
        [
            (b"", b"", "application/octet-stream"),
            ("é", b"\xc3\xa9", "text/plain"),
            (bytearray(b"ab"), b"ab", "application/octet-stream"),
            (memoryview(b"ab"), b"ab", "application/octet-stream"),
            (b"x" * (INLINE_BELOW - 1), b"x" * (INLINE_BELOW - 1), "application/octet-stream"),
        ],
    )
    def test_small_content_is_held(self, data: Any, content: bytes, type_: str) -> None:
        blob = create_blob(data)
        assert (blob.inline, blob.read(), blob.size, blob.type, blob.unsaved) == (content, content, len(content), type_, None)

    @pytest.mark.parametrize(
        "data",
        [
            LARGE,
            LARGE.decode("latin-1"),
            io.BytesIO(LARGE),
            [LARGE[:70000], LARGE[70000:]],
            (LARGE[n : n + 1000] for n in range(0, 131072, 1000)),
        ],
        ids=["bytes", "text", "file", "list", "generator"],
    )
    def test_large_content_gets_a_file(self, files: BlobFiles, data: Any) -> None:
        expected = data.encode() if isinstance(data, str) else LARGE
        blob = saved(files, data)
        assert blob.number is not None and blob.inline is None
        assert blob.read() == expected
        assert blob.size == len(expected)

    @pytest.mark.parametrize("data", [io.BytesIO(b"ab"), [b"a", b"b"], iter([b"a", memoryview(b"b")])], ids=["file", "list", "iterator"])
    def test_a_source_that_gives_little_is_held(self, files: BlobFiles, data: Any) -> None:
        blob = saved(files, data)
        assert (blob.number, blob.inline) == (None, b"ab")

    @pytest.mark.parametrize("data", [5, None, object()], ids=["number", "null", "object"])
    def test_other_things_are_refused(self, data: Any) -> None:
        with pytest.raises(BadValue):
            create_blob(data)

    @pytest.mark.parametrize("data", [["text"], io.StringIO("text"), [5]], ids=["texts", "text file", "numbers"])
    def test_sources_of_other_things_are_refused(self, files: BlobFiles, data: Any) -> None:
        with pytest.raises(BadValue):
            saved(files, data)
        assert list(files.walk()) == []

    @pytest.mark.parametrize("type_", ["a\r\nb: c", "\u00e9/x", "", "x" * 256])
    def test_types_that_are_none(self, type_: str) -> None:
        with pytest.raises(BadValue):
            Blob(b"", type_)

    def test_half_a_character_is_refused(self) -> None:
        with pytest.raises(BadValue):
            create_blob("\ud800")

    def test_unsaved_blobs_are_counted(self, files: BlobFiles) -> None:
        before = UnsavedContent.alive
        one, other = create_blob(LARGE), create_blob(LARGE)
        assert UnsavedContent.alive == before + 2
        save_now(one, files)
        del other
        assert UnsavedContent.alive == before

    def test_blobs_are_found_at_any_depth(self) -> None:
        blob = create_blob(b"x")
        assert list(blobs_in({"a": [1, {"b": blob}], "c": (blob,), "d": "x"})) == [blob, blob]


class TestReferences:
    def test_small_content_is_in_the_record(self) -> None:
        raw = encode({"a": create_blob(b"ab", type="image/png")}, 1.0, 7, 5.0)
        assert not has_files(raw)
        found = decode(raw)["a"]
        assert (found.inline, found.type, found.size, found.is_arriving) == (b"ab", "image/png", 2, False)

    def test_large_content_is_referred_to(self, files: BlobFiles) -> None:
        blob = saved(files, type="image/png")
        for expiry in (None, 5.0):
            raw = encode({"x": 1, "a": blob}, 1.0, 7, expiry)
            assert has_files(raw) and lsn_of(raw) == 7 and len(raw) < 100
            assert raw_payload(raw) in raw
            found = decode(raw)["a"]
            assert found == blob and hash(found) == hash(blob) and found.file is None
            assert projection(("a",))(raw)[0] == blob
            assert (found.read(), found.type, found.size) == (LARGE, "image/png", len(LARGE))

    def test_equality(self, files: BlobFiles) -> None:
        assert create_blob(b"a") == create_blob(b"a") != create_blob(b"b")
        assert create_blob(b"a", type="x/y") != create_blob(b"a")
        assert saved(files) != saved(files)
        assert saved(files) != create_blob(b"a")
        assert create_blob(b"a") != b"a"

    def test_a_reference_into_a_database_that_is_not_open(self, files: BlobFiles) -> None:
        blob = saved(files, type="image/png")
        raw = encode({"a": blob}, 1.0, 7, None)
        files.close()
        found = decode(raw)["a"]
        assert found == blob
        assert decode_json(raw)["a"]["size"] == len(LARGE)
        with pytest.raises(ServerError):
            found.read()

    def test_in_sets_lists_and_objects_with_odd_keys(self, files: BlobFiles) -> None:
        blob = saved(files)
        for value in ([blob], {"b": blob}, {1: blob}, {blob}):
            raw = encode({"a": value, "big": 1 << 70}, 1.0, 1, None)
            assert has_files(raw)
            assert list(blobs_in(decode(raw))) == [blob]


class TestJson:
    @pytest.mark.parametrize(
        ("content", "type_", "form"),
        [
            (b"\xc3\xa9", "text/plain", "é"),
            (b"\xe9", "text/html; charset=latin-1", "é"),
            (b"\xe9", 'text/html; charset="latin-1"', "é"),
            (b"\xc3\xa9", "text/plain; charset=klingon", "é"),
            (b"\xc3\xa9", "text/plain; charset=hex", "é"),
            (b"\xe9", "text/plain; charset=klingon", {"contentType": "text/plain; charset=klingon", "size": 1}),
            (b"\xe9", "image/png", {"contentType": "image/png", "size": 1}),
            (b"", None, {"contentType": "application/octet-stream", "size": 0}),
        ],
    )
    def test_text_is_shown_other_things_are_described(self, content: bytes, type_: str | None, form: Any) -> None:
        found = decode_json(encode({"a": create_blob(content, type=type_)}, 1.0, 1, None))["a"]
        if isinstance(found, dict):
            assert found.pop("description")
        assert found == form

    def test_text_in_a_file(self, files: BlobFiles) -> None:
        blob = saved(files, "é" * 9000)
        assert stored(blob).json_form() == "é" * 9000
        assert files.find(blob.number or 0) is not None
        files.remove(blob.number or 0)
        assert stored(blob).json_form()["size"] == 18000

    def test_very_long_text_is_described(self, files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blob_module, "MAX_SHOWN", 10_000)
        long, short = stored(saved(files, "x" * 10_001)), stored(saved(files, "x" * 10_000))
        assert short.json_form() == "x" * 10_000
        assert short.binary_form() == b"x" * 10_000
        for form in (long.json_form(), long.binary_form()):
            assert (form["size"], form["contentType"]) == (10_001, "text/plain")


class TestReading:
    @pytest.mark.parametrize(
        ("start", "end"), [(0, None), (5, 10), (0, 0), (65536, 65537), (70000, None), (131071, 131072), (131072, None)]
    )
    def test_ranges(self, files: BlobFiles, start: int, end: int | None) -> None:
        for blob in (create_blob(LARGE), stored(saved(files))):
            pieces = list(blob.chunks(start, end))
            assert b"".join(pieces) == LARGE[start:end]
            assert all(0 < len(piece) <= 65536 for piece in pieces)
            assert asyncio.run(collect(blob.stream(start, end))) == LARGE[start:end]

    def test_what_is_not_read_to_its_end_is_closed(self, files: BlobFiles) -> None:
        chunks = stored(saved(files)).chunks()
        next(chunks)
        chunks.close()
        assert list(chunks) == []

    def test_a_file_that_shrinks_while_it_is_read(self, files: BlobFiles, caplog: pytest.LogCaptureFixture) -> None:
        blob = saved(files)
        chunks = stored(blob).chunks()
        next(chunks)
        path = files.find(blob.number or 0)
        assert path is not None
        path.write_bytes(b"short")
        with pytest.raises(ServerError):
            next(chunks)
        assert "ends after 65536 bytes" in caplog.text

    def test_bytes_and_text(self, files: BlobFiles) -> None:
        async def read() -> None:
            blob = stored(saved(files, "é" * 9000))
            assert await blob.bytes() == ("é" * 9000).encode()
            assert await blob.text() == "é" * 9000
            assert await create_blob(b"\xe9", type="text/x; charset=latin-1").text() == "é"
            await blob.written

        asyncio.run(read())

    @pytest.mark.parametrize(("start", "end"), [(0, 10), (-10, None), (100, -100), (70000, 140000), (9, 3), (20_000, 30_000)])
    def test_slices(self, files: BlobFiles, start: int, end: int | None) -> None:
        for blob in (create_blob(LARGE), stored(saved(files))):
            part = blob.slice(start, end, "image/png")
            expected = LARGE[start:end]
            assert (part.size, part.type) == (len(expected), "image/png")
            assert asyncio.run(part.bytes()) == expected
            assert part.slice(1, 5).read() == expected[1:5]
            copy = blob.slice(start, end)
            save_now(copy, files)
            assert stored(copy).read() == expected


async def collect(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


class Source:
    """An async iterable that gives what it is told to."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        item = await self.queue.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, Exception):
            raise item
        return item


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class TestArriving:
    def test_it_is_read_while_it_arrives(self, files: BlobFiles) -> None:
        async def play() -> None:
            source = Source()
            blob = create_blob(source, type="video/mp4")
            sizes: list[int] = []
            blob.on("size", sizes.append)
            await save(blob, files, Helper())
            assert blob.number is not None and blob.size is None and blob.is_arriving
            assert blob.file is not None
            blob.file.claim()
            blob.file.keep()
            found = stored(blob)
            assert found.json_form()["size"] is None
            with pytest.raises(ServerError):
                found.read()
            reader = asyncio.create_task(collect(found.stream(2, 7)))
            source.queue.put_nowait(b"0123")
            await settle()
            assert not reader.done()
            written = asyncio.ensure_future(blob.written)
            source.queue.put_nowait(b"456789")
            assert await reader == b"23456"
            assert not written.done()
            whole = asyncio.create_task(collect(found.stream()))
            await settle()
            source.queue.put_nowait(None)
            assert await whole == b"0123456789"
            await written
            assert sizes == [10] and found.size == 10 and not found.is_arriving
            assert stored(blob).read() == b"0123456789"

        asyncio.run(play())

    @pytest.mark.parametrize("given", [b"", b"abc"], ids=["at once", "later"])
    def test_a_source_that_breaks(self, files: BlobFiles, given: bytes, caplog: pytest.LogCaptureFixture) -> None:
        async def play() -> None:
            source = Source()
            blob = create_blob(source)
            errors: list[Exception] = []
            blob.on("error", errors.append)
            await save(blob, files, Helper())
            assert blob.file is not None
            blob.file.claim()
            blob.file.keep()
            pieces = stored(blob).stream()
            if given:
                source.queue.put_nowait(given)
                assert await anext(pieces) == given
            waiting = asyncio.ensure_future(blob.written)
            reader = asyncio.ensure_future(anext(pieces))
            await settle()
            source.queue.put_nowait(RuntimeError("no more film"))
            with pytest.raises(ServerError, match="broke off after 3" if given else "no more film"):
                await reader
            with pytest.raises(RuntimeError):
                await waiting
            assert [str(error) for error in errors] == ["no more film"]
            blob.on("error", errors.append)
            assert len(errors) == 2
            with pytest.raises(ServerError):
                stored(blob).read()

        asyncio.run(play())

    def test_a_reader_gives_up_without_progress(self, files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        async def play() -> None:
            blob = create_blob(Source())
            await save(blob, files, Helper())
            monkeypatch.setattr(blob_module, "STALL_SECONDS", 0.0)
            with pytest.raises(ServerError) as caught:
                await collect(stored(blob).stream())
            assert caught.value.code == "BLOB_STALLED"

        asyncio.run(play())

    def test_another_process_looks_at_the_file(self, files: BlobFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        async def play() -> None:
            monkeypatch.setattr(blob_module, "POLL_SECONDS", 0.0)
            source = Source()
            blob = create_blob(source)
            await save(blob, files, Helper())
            files.arriving.clear()  # as there
            reader = asyncio.create_task(collect(stored(blob).stream()))
            source.queue.put_nowait(b"abc")
            await settle()
            assert not reader.done()
            source.queue.put_nowait(None)
            assert await reader == b"abc"

        asyncio.run(play())

    def test_saved_before_the_commit(self, files: BlobFiles) -> None:
        async def play() -> None:
            source = Source()
            for piece in (b"a" * 5000, b"b" * 5000, None):
                source.queue.put_nowait(piece)
            blob = create_blob(source, save_before_commit=True)
            await save(blob, files, Helper())
            assert blob.size == 10_000 and not blob.is_arriving
            broken = Source()
            broken.queue.put_nowait(b"a" * 9000)
            broken.queue.put_nowait(RuntimeError("off"))
            with pytest.raises(RuntimeError):
                await save(create_blob(broken, save_before_commit=True), files, Helper())

        asyncio.run(play())
        gc.collect()
        assert [names for _, names in files.walk()] == [[]]  # nothing refers to them, so they went with their blobs

    def test_without_a_loop_it_cannot_be_saved(self, files: BlobFiles) -> None:
        with pytest.raises(BadValue):
            save_now(create_blob(Source()), files)

    def test_a_source_is_read_once(self, files: BlobFiles) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"abc"

        async def play() -> None:
            blob = create_blob(pieces())
            assert await blob.bytes() == b"abc"
            assert await blob.bytes() == b"abc"
            assert blob.inline == b"abc"
            other = create_blob(pieces())
            assert await collect(other.stream(1)) == b"bc"
            with pytest.raises(BadValue, match="only once"):
                await other.bytes()

        asyncio.run(play())

    def test_events_have_names(self) -> None:
        blob = create_blob(b"abc")
        seen: list[int] = []
        blob.on("size", seen.append)
        assert seen == [3]
        with pytest.raises(BadValue):
            blob.on("end", print)
