"""Values as a table of plain entries, and back: what a saved file is made of.

A value that is made of others is an entry of one flat list, and refers to entries before it by number.
So what was shared is shared again, there are no circles, and reading needs no recursion.

What can be read back is a list that the project itself makes: its own parts by their words (`word_of`: a
move of a module breaks no saved file), scikit-learn's kernels by name, arrays, and plain
containers. Before anything is made, one pass over the table bounds how deep it nests and how large it is
unfolded (`check_table`). Parts are made by their constructors, given only what these say that they take
(`check_types`). A part of the user's is saved by its name, `module:name`, and what has that name must be
handed over by whoever reads it: a file never says what is imported.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import re
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pkgutil import walk_packages
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.coercion import error_line, shown

# --- a saved file: a structure in JSON and arrays, in a zip that runs nothing ---------------------
# The file is a zip, so that any tool can look into it: `structure.json`, and `arrays/0.npy`,
# `arrays/1.npy`, ... Its members are stored, not packed: what is read is never larger than the
# file. The last 64 bytes, which a zip calls its comment, are the SHA-256 of everything before them,
# in hexadecimal digits; a cut or a changed byte anywhere gives another sum.
#
# Why not a database: a saved bandit is written once and read as a whole, and arrays in a zip can be
# read by numpy alone. What grows row by row is kept in a campaign instead.
#
# Nothing is unpickled: members of other names are refused, and so are arrays of objects, whose
# numbers would be a pickle.


FORMAT, VERSION = "tvbandits saved file", 6
STRUCTURE = "structure.json"
# Kinds of numbers and texts that an array of a file may have: of fixed size, and no objects.
KINDS = "biufcSU"

_DIGEST = 64
# Bytes of the structure, which is JSON: a hundred times that of any policy, and seconds to read.
_LONGEST = 8_000_000


class SavedFileError(ValueError):
    """A file is not one that was saved, or not as it was saved."""


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
    whole = {"format": FORMAT, "version": VERSION, **structure}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
        # A member without a date has a fixed one: the same values make the same bytes.
        archive.writestr(zipfile.ZipInfo(STRUCTURE), text.encode())
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(_name(number)), member.getbuffer())
        archive.comment = b"0" * _DIGEST
    view = buffer.getbuffer()
    view[-_DIGEST:] = hashlib.sha256(view[:-_DIGEST]).hexdigest().encode()
    return bytes(view)


def _name(number: int) -> str:
    return f"arrays/{number}.npy"


def unpacked_structure(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The structure and the arrays of a file.

    Raises
    ------
    SavedFileError
        If it is anything but a whole and unchanged file of a version that is known.
    """
    if data[:4] != b"PK\x03\x04":
        raise SavedFileError(f"it is not a saved file: it begins with {data[:8]!r}")
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).hexdigest().encode() != data[-_DIGEST:]:
        raise SavedFileError("it is cut or changed: its checksum is not that of its content")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = _checked_members(archive.infolist(), len(data))
            structure = _structure(archive.read(STRUCTURE))
            return structure, [_array(name, archive.read(name)) for name in names[1:]]
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise SavedFileError(f"it is damaged: {error}") from error


def _checked_members(infos: list[zipfile.ZipInfo], size: int) -> list[str]:
    """The names of what is inside: the structure and numbered arrays, none packed, none twice."""
    names = [info.filename for info in infos]
    expected = [STRUCTURE, *map(_name, range(len(names) - 1))]
    for name, other in zip_longest(names, expected):
        if name != other:
            raise SavedFileError(f"its member {name!r} does not belong there, but {other!r}")
    packed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
    if packed or sum(info.file_size for info in infos) > size:
        raise SavedFileError("its members are packed or overlap, which none should")
    return names


def _structure(text: bytes) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise SavedFileError(f"{STRUCTURE} has {len(text)} bytes, at most {_LONGEST} may be")
    try:
        found = json.loads(text.decode(), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{STRUCTURE} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SavedFileError(f"it is not a saved file: {STRUCTURE} does not say {FORMAT!r}")
    version = found.get("version")
    if version != VERSION:
        raise SavedFileError(f"it is of version {version!r}, and {VERSION} is known here")
    return found


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python reads in JSON: a `ValueError`."""
    raise ValueError(f"{name} is not JSON")


def _array(name: str, data: bytes) -> NDArray[Any]:
    """An array from the bytes of an npy file: its size is compared before any room is made."""
    stream, npy = io.BytesIO(data), np.lib.format
    try:
        npy.read_magic(stream)
        shape, _, dtype = npy.read_array_header_1_0(stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS or dtype.itemsize == 0:
            raise ValueError(f"it holds {dtype}")
        if size != len(data) - stream.tell():
            raise ValueError(f"{shape} of {dtype} are not {len(data) - stream.tell()} bytes")
        stream.seek(0)
        found: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
    except Exception as error:  # of whatever kind numpy makes of a header
        raise SavedFileError(f"its member {name!r} is no array: {shown(error)}") from error
    return found


# --------------------------------------------------------------------------------------------------


# Where kernels come from; it is imported where one is made, since that takes two seconds.
SKLEARN = "sklearn.gaussian_process.kernels"

# Packages whose values can be read back: frozen ones, and those that say what they are made of.
HOUSES = (
    "core",
    "gp",
    "forgetting",
    "acquisition",
    "queries",
    "bandit",
    "policies",
    "experts",
    "datasets",
)

# Modules of `core` whose parts say what was told where, which can be read without any beliefs.
ON_RECORD = ("box", "candidates", "limits", "moving", "observations", "parameters", "space")

# But not those that reach out to files or hosts when they are made: who reads hands them over.
OUTSIDE = (
    "tvbandits.core.files",
    "tvbandits.core.rows",
    "tvbandits.core.tables",
    "tvbandits.datasets.epa_ozone",
    "tvbandits.datasets.tables",
    "tvbandits.experts.conformance",
    "tvbandits.experts.log",
    "tvbandits.experts.sensors",
)


def word_of(kind: type) -> str:
    """What a class is called in files."""
    word: str = vars(kind).get("__word__", kind.__name__)
    return word


def is_part(kind: object) -> TypeGuard[type]:
    """Whether this is a kernel of scikit-learn, or a class of the project that can be made again."""
    if not isinstance(kind, type) or inspect.isabstract(kind):
        return False
    if kind.__module__ == SKLEARN:
        return is_kernel(kind)
    package, house, *_ = f"{kind.__module__}.".split(".")
    if package != "tvbandits" or house not in HOUSES or kind.__module__.startswith(OUTSIDE):
        return False
    plain = is_dataclass(kind) or is_named_tuple(kind) or is_kernel(kind)
    return "<" not in kind.__qualname__ and (hasattr(kind, "__saved__") or plain)


def is_kernel(kind: type) -> bool:
    """Whether it is a kernel of scikit-learn, or made from one."""
    return any((each.__module__, each.__name__) == (SKLEARN, "Kernel") for each in kind.__mro__)


def is_named_tuple(kind: type) -> bool:
    """Whether it is one."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


@cache
def parts_on_record() -> dict[str, type]:
    """The parts that domains and readings are made of; nothing is imported that takes long."""
    return _parts_in([f"tvbandits.core.{each}" for each in ON_RECORD])


@cache
def parts_by_word() -> dict[str, type]:
    """All parts by their words; the modules that may define some are imported.

    Raises
    ------
    ValueError
        If two of them have one word.
    """
    names = [SKLEARN]
    for house in HOUSES:
        package = import_module(f"tvbandits.{house}")
        below = walk_packages(package.__path__, f"{package.__name__}.")
        names += [each.name for each in below if not each.name.startswith(OUTSIDE)]
    return _parts_in(names)


def _parts_in(names: list[str]) -> dict[str, type]:
    found: dict[str, type] = {}
    for kind in (each for name in names for each in vars(import_module(name)).values()):
        if is_part(kind) and found.setdefault(word_of(kind), kind) is not kind:
            raise ValueError(f"two parts have the word {word_of(kind)!r}")
    return found


def check_types(kind: type, parts: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first part of a value that is not of its annotated type."""
    hints = _hints(kind)
    for name, part in parts.items():
        if name in hints and not fits(part, hints[name]):
            raise ValueError(f"{name} of {kind.__name__} cannot be {str(part)[:80]!r}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    made: Any = getattr(kind, "__restored__", None)
    if made is None:
        made = kind if is_dataclass(kind) or issubclass(kind, tuple) else kind.__init__
    return get_type_hints(made)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; of what cannot be looked into, such as callables, that it is one."""
    origin, inside = get_origin(hint), get_args(hint)
    alias = origin or hint
    if hasattr(alias, "__value__"):  # of `type X = ...`, as `NDArray` is since numpy 2.5
        return fits(value, alias.__value__[inside] if inside else alias.__value__)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is np.ndarray:
        kind = get_args(inside[1])[0]
        return isinstance(value, np.ndarray) and (kind is Any or np.issubdtype(value.dtype, kind))
    if origin is tuple and inside[-1:] != (...,):
        alike = isinstance(value, tuple) and len(value) == len(inside)
        return alike and all(map(fits, value, inside))
    if origin in (tuple, list, Sequence):
        return isinstance(value, origin) and all(fits(each, inside[0]) for each in value)
    if origin is not None and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, Mapping) else ((None, None),)
        return all(fits(key, inside[0]) and fits(each, inside[1]) for key, each in pairs)
    return _is_a(value, origin or hint)


# What is of a kind of number; a truth value is of its own alone.
_NUMBERS = {float: float | int | np.floating, int: int | np.integer, bool: bool | np.bool_}


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None or kind is types.NoneType:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and (kind is bool or not isinstance(value, bool))
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type) or kind is Any:
        return True
    if getattr(kind, "_is_protocol", False):
        named = {name for name in vars(kind) if not name.startswith("_") or name == "__call__"}
        has = set(dir(type(value))) | getattr(value, "__dict__", {}).keys()
        return not isinstance(value, type) and named <= has
    return isinstance(value, kind)


_PLACE = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*:[A-Za-z_]\w*")
# Parts of the user's, by `module:name`.
Trusted = Mapping[str, Any]


# How deep the entries of a file may nest; those of every policy nest 12 deep.
MOST_DEEP = 100

# How many times larger a file may be once everything shared is counted each time (those of every
# policy are 5 times larger), and how many terms a kernel may then have.
MOST_UNFOLDED, MOST_KERNELS = 20, 1_000

# Bits of a whole number: those of the state of a generator.
LONGEST_INT = 128

# Whole numbers beyond it may all have one hash, and a dictionary of them takes for ever.
LARGEST_KEY = 2**61 - 2


def name_of(part: Any) -> str:
    """The word of a part of the package; `module:name` of anything else."""
    named = part if isinstance(part, type | types.FunctionType) else type(part)
    if is_part(named):
        return word_of(named)
    module = named.__module__
    # The package's own, which are handed over, are known by its name: modules may move.
    return f"{'tvbandits' if module.startswith('tvbandits.') else module}:{named.__qualname__}"


class Encoder:
    """Makes the table of entries.

    Attributes
    ----------
    entries : list
        The table.
    arrays : list of arrays
        What the entries refer to.
    own : list of str
        Names of the parts that must be handed over to read it.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.arrays: list[Any] = []
        self.own: list[str] = []
        self._known: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def ref(self, value: Any) -> Any:
        """A value: as it is, or as a reference to an entry."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        known = self._known.get(id(value))
        if known is None:
            if id(value) in self._open:
                raise ValueError(f"{kind.__name__} holds itself, and cannot be saved")
            self._open.add(id(value))
            entry = self._entry(value)
            self._open.discard(id(value))
            self.entries.append(entry)
            # The value is kept, so that its id is not another one's.
            known = self._known[id(value)] = (value, len(self.entries) - 1)
        return {"entry": known[1]}

    def _entry(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.ndarray):
            return {"array": self._array(value), "writeable": bool(value.flags.writeable)}
        if isinstance(value, np.generic):
            return {"number": self._array(np.asarray(value))}
        if type(value) in (tuple, list):
            return {type(value).__name__: [self.ref(each) for each in value]}
        if type(value) is dict:
            return {"dict": [[self.ref(key), self.ref(each)] for key, each in value.items()]}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.random.Generator):
            return {"generator": self.ref(dict(value.bit_generator.state))}
        if is_part(type(value)):
            form = "kernel" if is_kernel(type(value)) else "value"
            parts = {name: self.ref(part) for name, part in parts_of(value).items()}
            return {form: word_of(type(value)), "with": parts}
        return self._named(value)

    def _named(self, value: Any) -> dict[str, Any]:
        name = name_of(value)
        if not _PLACE.fullmatch(name):
            needs = "must stand in a module by its name, not inside of a function"
            raise ValueError(f"{name} cannot be saved: a part of your own {needs}")
        if name not in self.own:
            self.own.append(name)
        return {"own": name}

    def _array(self, array: Any) -> int:
        if array.dtype.kind not in KINDS:
            raise ValueError(f"an array of {array.dtype} cannot be saved")
        self.arrays.append(array)
        return len(self.arrays) - 1


def parts_of(value: Any) -> dict[str, Any]:
    """What a value of the project, or a kernel, is made from again."""
    if is_kernel(type(value)):
        return dict(value.get_params(deep=False))
    if hasattr(type(value), "__saved__"):
        parts: dict[str, Any] = value.__saved__()
        return parts
    if is_named_tuple(type(value)):
        return dict(value._asdict())
    # What an expert around others has learned is its state, which is kept with that of the bandit.
    return {each.name: getattr(value, each.name) for each in fields(value) if each.init}


def check_table(entries: list[Any], arrays: list[Any]) -> None:
    """Raise a `SavedFileError` unless entries refer to those before them, and unfold within limits.

    Whoever looks into a value sees what is shared each time it is referred to: n entries of two
    references each are 2^n values.
    """
    own, most = len(entries), 1_000 + MOST_UNFOLDED * len(entries)
    most_bytes = 1_000_000 + MOST_UNFOLDED * sum(array.nbytes for array in arrays)
    deep, large, heavy = [0] * own, [0] * own, [0] * own
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not entry:
            raise SavedFileError(f"{str(entry)[:80]!r} is no entry")
        behind = [_index(each, number, "entry before it") for each in _references(entry)]
        deep[number] = 1 + max((deep[each] for each in behind), default=0)
        large[number] = 1 + sum(large[each] for each in behind)
        held = [arrays[_index(entry[kind], len(arrays))] for kind in _ARRAYS if kind in entry]
        heavy[number] = sum(array.nbytes for array in held) + sum(heavy[each] for each in behind)
        for what, found, limit in (
            ("nests", deep[number], MOST_DEEP),
            ("unfolds to a number of entries of", large[number], most),
            ("unfolds to bytes of", heavy[number], most_bytes),
            ("is a kernel of as many parts as", large[number], MOST_KERNELS),
        ):
            if found > limit and ("kernel" in entry or limit != MOST_KERNELS):
                raise SavedFileError(f"entry {number} {what} {found}, and the limit is {limit}")


def _references(entry: dict[str, Any]) -> Iterator[Any]:
    """Numbers of the entries that an entry refers to: an item, a list or a dictionary of them, pairs."""
    waiting: list[tuple[Any, int]] = [(entry, 0)]
    while waiting:
        found, level = waiting.pop()
        if isinstance(found, dict) and level and found.keys() == {"entry"}:
            yield found["entry"]
        elif isinstance(found, dict | list) and level <= _LEVELS:
            inside = found.values() if isinstance(found, dict) else found
            waiting += [(each, level + 1) for each in inside]


_ARRAYS, _LEVELS = ("array", "number"), 2


class Decoder:
    """Reads the table of entries, first to last, but for those that are not wanted.

    Parameters
    ----------
    entries : list
        Checked by `check_table`.
    arrays : list of arrays
    trusted : mapping of str to object
        Parts of the user's, by `module:name`.
    wanted : reference
        To a value, of which the entries are made that it needs.

    Raises
    ------
    SavedFileError
        If an entry is not of the form that `Encoder` gives it, or names what cannot be read back.
    """

    def __init__(
        self, entries: list[Any], arrays: list[Any], trusted: Trusted, wanted: Any
    ) -> None:
        self._arrays, self._trusted = arrays, trusted
        self._made: dict[int, Any] = {}
        roots = _references({"wanted": wanted})
        needed = {_index(each, len(entries), "entry") for each in roots}
        for number in reversed(range(len(entries))):
            if number in needed:
                needed.update(_references(entries[number]))
        for number in sorted(needed):
            try:
                self._made[number] = self._value(entries[number])
            except SavedFileError:
                raise
            except Exception as error:
                why = error_line(error)
                raise SavedFileError(f"entry {number} cannot be made: {why}") from error

    def value(self, ref: Any) -> Any:
        """The value that a reference stands for."""
        if ref is None or type(ref) in (bool, float, str):
            return ref
        if type(ref) is int and ref.bit_length() <= LONGEST_INT:
            return ref
        if isinstance(ref, dict) and len(ref) == 1:
            (kind, what), *_ = ref.items()
            if kind == "entry" and type(what) is int and what in self._made:
                return self._made[what]
            if kind == "float" and what in ("nan", "inf", "-inf"):
                return float(what)
        raise SavedFileError(f"{str(ref)[:80]!r} is no reference to an entry before it")

    def _value(self, entry: Any) -> Any:
        """What `Encoder._entry` was given."""
        (kind, what), *_ = entry.items()
        match kind:
            case "array":  # of its own for each entry
                array = self._array(what)
                array.setflags(write=entry["writeable"] is True)
                return array
            case "number":
                array = self._array(what)
                if array.shape != ():
                    raise SavedFileError(f"a number has the shape {array.shape}")
                return array[()]
            case "tuple" | "list":
                return (tuple if kind == "tuple" else list)(map(self.value, what))
            case "dict":
                return {_key(self.value(key)): self.value(each) for key, each in what}
            case "bytes":
                return bytes.fromhex(what)
            case "generator":
                return _generator(self.value(what))
            case "kernel" | "value":
                parts = {str(name): self.value(ref) for name, ref in entry["with"].items()}
                return _remade(kind, what, parts)
            case "own":
                return self._own(what)
        raise SavedFileError(f"{kind[:80]!r} is no kind of entry")

    def _array(self, number: Any) -> Any:
        return self._arrays[_index(number, len(self._arrays))]

    def _own(self, name: Any) -> Any:
        """A part of the user's."""
        if name not in self._trusted:
            rows = name in ("tvbandits:MappedRows", "tvbandits:ParquetRows")
            part = "Candidates(path).rows" if rows else "..."
            raise SavedFileError(
                f"it uses {name!r}, which is not part of it, and is not taken because a file says so: "
                f"hand it over, as in trusted={{{name!r}: {part}}}"
            )
        return self._trusted[name]


def _remade(form: str, word: Any, parts: dict[str, Any]) -> Any:
    """A kernel or another part of the project, from what it says that it takes."""
    kind = parts_on_record().get(word) or parts_by_word().get(word)
    if kind is None:
        raise SavedFileError(f"{str(word)[:80]!r} is no part that is known to this version")
    if is_kernel(kind) != (form == "kernel"):
        raise SavedFileError(f"{word!r} is no {form}")
    check_types(kind, parts)
    make: Callable[..., Any] = getattr(kind, "__restored__", kind)
    return make(**parts)


def _generator(state: Any) -> np.random.Generator:
    names = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    if state["bit_generator"] not in names:
        raise SavedFileError(f"{state['bit_generator']!r} is no generator; there are {names}")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _key(key: Any) -> Any:
    """A key of a mapping: plain, and with a hash that nobody can choose."""
    if type(key) in (str, bytes) or (type(key) is int and abs(key) <= LARGEST_KEY):
        return key
    raise SavedFileError(f"{str(key)[:80]!r} cannot be a key")


def _index(number: Any, count: int, what: str = "array") -> int:
    if type(number) is not int or not 0 <= number < count:
        raise SavedFileError(f"there is no {what} {str(number)[:80]}")
    return number
