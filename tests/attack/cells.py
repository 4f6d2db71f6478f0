"""A small file of the same form as that of NAS-Bench-101."""

from __future__ import annotations

import base64
import json
import struct


def varint(number: int) -> bytes:
    """As protocol buffers write whole numbers."""
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def measured(epoch: float, validation: float) -> bytes:
    """What one training gave after so many epochs."""
    numbers = [epoch, 10.0, 0.99, validation, 0.5]
    parts = [bytes([i << 3 | 1]) + struct.pack("<d", n) for i, n in enumerate(numbers, start=1)]
    return b"".join(parts) + bytes([6 << 3 | 2]) + varint(200) + b"c" * 200


def message(validation: float) -> bytes:
    """A training: before its first epoch, and after its last."""
    parts = [b"\x0a" + varint(len(m)) + m for m in (measured(0, 0.1), measured(108, validation))]
    return b"".join(parts) + b"\x10" + varint(300_000) + b"\x19" + struct.pack("<d", 7.0)


CELL = "011001001010000110000011000001000000"
OPS = "input,conv3x3-bn-relu,maxpool3x3,conv3x3-bn-relu,maxpool3x3,output"
OTHER = "input,maxpool3x3,maxpool3x3,conv3x3-bn-relu,maxpool3x3,output"
RECORDS: list[tuple[int, str, str, float]] = [
    (108, CELL, OPS, 0.90),
    (108, CELL, OPS, 0.92),
    (108, CELL, OTHER, 0.80),
    (4, CELL, OTHER, 0.10),
    (108, CELL, OPS.replace("maxpool3x3", "conv1x1-bn-relu"), 0.99),
    (108, "010001000", "input,maxpool3x3,output", 0.99),
]


def framed(records: list[tuple[int, str, str, float]]) -> bytes:
    """Epochs, adjacency, operations and accuracy of each training, as a .tfrecord file."""
    out = b""
    for i, (epochs, adjacency, operations, accuracy) in enumerate(records):
        packed = base64.b64encode(message(accuracy)).decode()
        record = json.dumps([f"hash{i}", epochs, adjacency, operations, packed]).encode()
        out += struct.pack("<Q", len(record)) + b"crc1" + record + b"crc2"
    return out
