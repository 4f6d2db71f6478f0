"""A saved file: a structure in JSON and arrays, in a zip that nothing can be run from.

The file is a zip, so that any tool can look into it: `structure.json`, and `arrays/0.npy`,
`arrays/1.npy`, ... Its members are stored, not packed: what is read is never larger than the file. The
last 64 bytes, which a zip calls its comment, are the SHA-256 of everything before them, in hexadecimal
digits; a cut or a changed byte anywhere gives another sum.

Why not a database: a saved bandit is written once and read as a whole, and arrays in a zip can be read
by numpy alone. What grows row by row is kept in a campaign instead.

Nothing is unpickled: members of other names are refused, and so are arrays of objects, whose numbers
would be a pickle.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT, VERSION = "tvbandits saved file", 2
STRUCTURE = "structure.json"
KINDS = "biufcSU"
"""Kinds of numbers and texts that an array of a file may have: of fixed size, and no objects."""

_DIGEST = 64
_LONGEST_STRUCTURE = 8_000_000
"""Bytes of the structure, which is JSON: a hundred times that of any policy, and seconds to read."""

_LONGEST_HEADER = 10_000
_MOST_DIMENSIONS = 32


class SavedFileError(ValueError):
    """A file is not one that was saved, or not as it was saved."""


class UnknownVersionError(SavedFileError):
    """A file was saved by a version that this one does not know."""


def packed(structure: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """The bytes of a file.

    Parameters
    ----------
    structure : dict
        Of what JSON can hold; not a number among them that is not finite.
    arrays : sequence of arrays
        Of the kinds `KINDS`.
    """
    buffer = io.BytesIO()
    whole = {"format": FORMAT, "version": VERSION, "arrays": len(arrays), **structure}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
        archive.writestr(_member(STRUCTURE), text.encode())
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(_member(_name(number)), member.getbuffer())
        archive.comment = b"0" * _DIGEST
    view = buffer.getbuffer()
    digest = hashlib.sha256(view[:-_DIGEST]).hexdigest().encode()
    view[-_DIGEST:] = digest
    return bytes(view)


def _member(name: str) -> zipfile.ZipInfo:
    # A fixed date: the same values make the same bytes.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _name(number: int) -> str:
    return f"arrays/{number}.npy"


def unpacked_structure(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The structure and the arrays of a file.

    Raises
    ------
    SavedFileError
        If it is anything but a whole and unchanged file of a version that is known.
    """
    _check_whole(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_members(infos, len(data))
            structure = _structure(archive.read(STRUCTURE))
            count = structure["arrays"]
            expected = {STRUCTURE, *map(_name, range(count))}
            names = {info.filename for info in infos}
            if names != expected:
                odd = sorted(names ^ expected)[0]
                word = "is missing" if odd in expected else "does not belong there"
                raise SavedFileError(f"its member {odd!r} {word}")
            return structure, [_array(archive.read(_name(i)), i) for i in range(count)]
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError) as error:
        raise SavedFileError(f"it is damaged: {error}") from error


def _check_whole(data: bytes) -> None:
    """Whether the digest at the end is that of what stands before it."""
    if data[:1] == b"\x80" and len(data) > 1 and data[1] <= 5:
        raise SavedFileError("it is a pickle, which could run any code, and is not opened")
    if data[:4] != b"PK\x03\x04":
        raise SavedFileError(f"it is not a saved file: it begins with {data[:8]!r}")
    said = data[-_DIGEST:]
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).hexdigest().encode() != said:
        raise SavedFileError("it is cut or changed: its checksum is not that of its content")


def _check_members(infos: list[zipfile.ZipInfo], size: int) -> None:
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SavedFileError(f"its member {twice!r} is there twice")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise SavedFileError(f"its member {info.filename!r} is packed, which none should be")
        if info.flag_bits & 0x1:
            raise SavedFileError(f"its member {info.filename!r} is encrypted")
    if sum(info.file_size for info in infos) > size:
        raise SavedFileError("its members overlap: together they are larger than the file")
    if STRUCTURE not in names:
        raise SavedFileError(f"it is not a saved file: it has no {STRUCTURE!r}, but {names[:3]}")


def _structure(text: bytes) -> dict[str, Any]:
    if len(text) > _LONGEST_STRUCTURE:
        raise SavedFileError(
            f"{STRUCTURE} has {len(text)} bytes, at most {_LONGEST_STRUCTURE} may be"
        )
    try:
        found = json.loads(text.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{STRUCTURE} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SavedFileError(f"it is not a saved file: {STRUCTURE} does not say {FORMAT!r}")
    version = found.get("version")
    if version != VERSION or isinstance(version, bool):
        raise UnknownVersionError(f"it is of version {version!r}, and {VERSION} is known here")
    if type(found.get("arrays")) is not int or not 0 <= found["arrays"] <= len(text):
        raise SavedFileError(f"it says that it has {found.get('arrays')!r} arrays")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _array(data: bytes, number: int) -> NDArray[Any]:
    """An array from the bytes of an npy file: its size is compared before any room is made."""
    where = f"array {number}"
    if data[:8] != b"\x93NUMPY\x01\x00":
        pickled = data[:1] == b"\x80"
        what = "is a pickle, which could run any code" if pickled else "is no npy file of version 1"
        raise SavedFileError(f"{where} {what}")
    end = 10 + int.from_bytes(data[8:10], "little")
    if end > min(len(data), _LONGEST_HEADER):
        raise SavedFileError(f"{where} has a header of {end} bytes")
    try:
        header = ast.literal_eval(data[10:end].decode("latin1").strip())
        described, fortran, shape = (header[key] for key in ("descr", "fortran_order", "shape"))
        if not isinstance(described, str):
            raise ValueError(f"its numbers are {described!r}")
        dtype = np.dtype(described)
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise SavedFileError(f"{where} has a header that cannot be read: {error}") from error
    if dtype.hasobject or dtype.kind not in KINDS:
        objects = "holds objects, which are a pickle" if dtype.hasobject else f"holds {dtype}"
        raise SavedFileError(f"{where} {objects}")
    sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or len(shape) > _MOST_DIMENSIONS or not isinstance(fortran, bool):
        raise SavedFileError(f"{where} has the shape {shape!r}")
    if math.prod(shape) * dtype.itemsize != len(data) - end or dtype.itemsize == 0:
        raise SavedFileError(
            f"{where} should have {shape} numbers of {dtype}, and has {len(data) - end} bytes"
        )
    flat = np.frombuffer(data, dtype, offset=end)
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="F" if fortran else "C")
