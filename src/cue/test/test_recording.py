"""Recordings: what is written can be read, also when the writer was killed in the midst of it (FAULTS R14)."""

from __future__ import annotations

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from cue.recording import (
    RecordingError,
    RecordingWriter,
    about,
    is_finished,
    need_recordings,
    next_recording,
    read,
    recordings,
    repair,
    schema_text,
    tally,
)
from cue_core.errors import FileFormatError

STRING = "string data\n"
CDR = b"\x00\x01\x00\x00"


def word(text):
    """Return a std_msgs/String in CDR."""
    data = text.encode() + b"\0"
    return CDR + len(data).to_bytes(4, "little") + data


def written(path, count=100, close=True, flush_every=10):
    writer = RecordingWriter(path, {"live": "false"})
    for topic in ("/words", "/table_info"):
        writer.add_topic(topic, "std_msgs/msg/String", STRING, "- durability: transient_local\n")
    for number in range(count):
        writer.add("/words", word(f"{number} {'x' * 200}"), 10**9 + number, number, number)
        if number % flush_every == flush_every - 1:
            writer.flush()
    if close:
        writer.close(dropped=0)
    else:
        writer._file.flush()
        writer._file.close()
    return path


def test_any_reader_of_mcap_finds_messages_schema_and_qos(tmp_path):
    path = written(tmp_path / "session.mcap")
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        found = [message.data.split()[0] for *_, message in reader.iter_decoded_messages()]
        summary = reader.get_summary()
    assert found == [str(n) for n in range(100)]
    assert {channel.metadata["offered_qos_profiles"] for channel in summary.channels.values()} == {
        "- durability: transient_local\n"
    }
    assert is_finished(path)
    assert tally(path) == {"dropped": "0"}
    assert about(path) == {"live": "false"}


def test_r14_a_file_that_was_cut_anywhere_keeps_what_was_flushed(tmp_path):
    whole = written(tmp_path / "whole.mcap", close=False).read_bytes()
    assert len(list(read(tmp_path / "whole.mcap"))) == 100
    counts = []
    for share in range(1, 20):
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(whole[: len(whole) * share // 20])
        found = [message.sent for message in read(cut)]
        assert found == list(range(len(found)))
        assert not is_finished(cut)
        assert repair(cut) == len(found)
        assert is_finished(cut)
        with cut.open("rb") as file:
            assert sum(1 for _ in make_reader(file).iter_messages()) == len(found)
        assert [message.sent for message in read(cut)] == found
        counts.append(len(found))
    assert counts == sorted(counts)
    assert 80 <= counts[-1] < 100


def test_a_damaged_chunk_costs_itself_alone(tmp_path):
    path = tmp_path / "session.mcap"
    writer = RecordingWriter(path)
    writer.add_topic("/words", "std_msgs/msg/String", STRING, "")
    payload = np.random.default_rng(1).bytes(20_000)  # nothing that a compressor could make short
    for number in range(4):
        writer.add("/words", payload, number, number)
        writer.flush()
    writer.close()
    data = bytearray(path.read_bytes())
    data[30_000] ^= 0xFF  # in the second chunk
    path.write_bytes(bytes(data))
    assert [message.sent for message in read(path)] == [0, 2, 3]


def test_each_life_has_a_file_of_its_own(tmp_path):
    with pytest.raises(FileFormatError, match="record:=topics"):
        need_recordings(tmp_path)
    assert next_recording(tmp_path).name == "session.mcap"
    for number in range(1, 12):
        written(next_recording(tmp_path), count=number)
    assert [len(list(read(path))) for path in recordings(tmp_path)] == list(range(1, 12))
    assert next_recording(tmp_path).name == "session_12.mcap"
    with pytest.raises(RecordingError, match="cannot be written: File exists"):
        RecordingWriter(tmp_path / "session.mcap")


def test_what_is_no_recording_is_refused(tmp_path):
    (tmp_path / "session.mcap").write_text("something else entirely")
    with pytest.raises(RecordingError, match="is no recording"):
        list(read(tmp_path / "session.mcap"))


def test_a_full_disk_stops_the_recording_and_not_the_recorder(tmp_path):
    writer = RecordingWriter(tmp_path / "session.mcap")
    writer.add_topic("/words", "std_msgs/msg/String", STRING, "")

    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

        flush = write

    writer.add("/words", word("kept"), 1, 1)
    real = writer._writer._Writer__stream
    writer._writer._Writer__stream = Full()
    writer.flush()
    writer.add("/words", word("lost"), 2, 2)
    assert writer.problem == "the disk is full"
    assert writer.lost == 2
    writer._writer._Writer__stream = real
    writer.close()


def test_a_schema_holds_every_type_in_it_once(tmp_path):
    files = {
        "A": "uint8 SIZE=3 # a constant\nB[<=3] first\nother_msgs/C[] second\nstring<=10 name\nfloat64[4] numbers\n",
        "B": "other_msgs/C inner # and a comment: B first\n",
        "C": "int32 value 5\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.msg").write_text(text)
    text = schema_text("my_msgs/msg/A", lambda _package, name: tmp_path / f"{name}.msg")
    assert [line for line in text.splitlines() if line.startswith("MSG:")] == ["MSG: my_msgs/B", "MSG: other_msgs/C"]
