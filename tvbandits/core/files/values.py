"""Values as a table of plain entries, and back: what a saved file is made of.

A value that is made of others is an entry of one flat list, and refers to entries before it by number.
So what was shared is shared again, there are no circles, and reading needs no recursion.

What can be read back is a list that the project itself makes: its own frozen values (dataclasses and
named tuples in the packages `HOUSES`, and classes that say by `__saved__` what they are made of),
scikit-learn's kernels by name (`KERNELS`), arrays, and plain containers. They are made by their
constructors, which check what they are given. A part of the user's is saved by its name, `module:name`,
and what has that name must be handed over by whoever reads it: a file never says what is imported.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import math
import re
import types
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as kernel_module
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.core.files.archive import KINDS, SavedFileError

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
"""Packages whose values can be read back: frozen ones, and those that say what they are made of."""

OUTSIDE = (
    "core.files",
    "datasets.epa_ozone",
    "datasets.regression",
    "datasets.sensor_network",
    "datasets.tables",
    "experts.conformance",
    "experts.mqtt",
    "experts.records",
    "experts.sensors",
)
"""But not those that reach out to files or hosts when they are made: who reads hands them over."""

KERNELS = (
    "CompoundKernel",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Exponentiation",
    "Matern",
    "PairwiseKernel",
    "Product",
    "RBF",
    "RationalQuadratic",
    "Sum",
    "WhiteKernel",
)
"""Kernels of scikit-learn, by name."""

_PLACE = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*:[A-Za-z_]\w*")
Trusted = Mapping[str, Any]
"""Parts of the user's, by `module:name`."""


class UnknownPartError(SavedFileError):
    """A file names a part that was not handed over."""


def place_of(part: Any) -> str:
    """`module:name` of a class, of a function, or of the class of an object."""
    named = part if isinstance(part, type | types.FunctionType) else type(part)
    return f"{named.__module__}:{named.__qualname__}"


def _house_of(kind: type) -> str | None:
    """The module of a class inside of the project, if it is one whose values can be read back."""
    package, _, module = kind.__module__.partition(".")
    inside = package == "tvbandits" and module.split(".")[0] in HOUSES
    if not inside or module.startswith(OUTSIDE) or "<" in kind.__qualname__:
        return None
    return module


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
        if isinstance(value, enum.Enum) and _house_of(type(value)):
            return {"choice": place_of(value), "is": value.name}
        if type(value) in (tuple, list, frozenset, set):
            return {type(value).__name__: [self.ref(each) for each in value]}
        if type(value) in (dict, types.MappingProxyType):
            name = "dict" if type(value) is dict else "mapping"
            return {name: [[self.ref(key), self.ref(each)] for key, each in value.items()]}
        if type(value) is deque:
            return {"deque": [self.ref(each) for each in value], "most": value.maxlen}
        if type(value) is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.random.Generator):
            return {"generator": self.ref(_plain(value.bit_generator.state))}
        return self._made(value)

    def _made(self, value: Any) -> dict[str, Any]:
        """What is made by a constructor, or has only a name."""
        kind = type(value)
        house = _house_of(kind)
        if isinstance(value, Kernel):
            if house or (kind.__module__ == kernel_module.__name__ and kind.__name__ in KERNELS):
                parts = value.get_params(deep=False)
                name = f"{house}:{kind.__name__}" if house else kind.__name__
                return {"kernel": name, "with": self._parts(parts)}
        elif house and _is_known(kind):
            return {"value": f"{house}:{kind.__qualname__}", "with": self._parts(parts_of(value))}
        return self._named(value)

    def _named(self, value: Any) -> dict[str, Any]:
        name = place_of(value)
        if not _PLACE.fullmatch(name):
            raise ValueError(
                f"{name} cannot be saved: a part of your own is saved by its name, so it must stand "
                "in a module by that name, not inside of a function"
            )
        if name not in self.own:
            self.own.append(name)
        return {"own": name}

    def _parts(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.ref(part) for name, part in parts.items()}

    def _array(self, array: Any) -> int:
        if array.dtype.kind not in KINDS:
            raise ValueError(f"an array of {array.dtype} cannot be saved")
        self.arrays.append(array)
        return len(self.arrays) - 1


def parts_of(value: Any) -> dict[str, Any]:
    """What a value of the project is made from again."""
    if hasattr(type(value), "__saved__"):
        parts: dict[str, Any] = value.__saved__()
        return parts
    if _is_named_tuple(type(value)):
        return dict(value._asdict())
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.init}
    # An expert around others keeps what it was given under the same names; what it has learned is its
    # state, which is kept with that of the bandit.
    given = inspect.signature(type(value)).parameters.values()
    parts = {each.name: getattr(value, f"_{each.name}") for each in given}
    return {each.name: parts[each.name] for each in given if parts[each.name] is not each.default}


def _is_known(kind: type) -> bool:
    """Whether a class of the project can be made again from its parts."""
    around = kind.__module__.startswith("tvbandits.experts.wrappers") and hasattr(kind, "query")
    plain = is_dataclass(kind) or _is_named_tuple(kind)
    return hasattr(kind, "__saved__") or plain or around


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return dict(state)


class Decoder:
    """Reads the table of entries, first to last.

    Parameters
    ----------
    entries : list
    arrays : list of arrays
    trusted : mapping of str to object
        Parts of the user's, by `module:name`.

    Raises
    ------
    SavedFileError
        If an entry is not of the form that `Encoder` gives it, or names what cannot be read back.
    """

    def __init__(self, entries: list[Any], arrays: list[Any], trusted: Trusted) -> None:
        self._arrays, self._trusted = arrays, trusted
        self._made: list[Any] = []
        for number, entry in enumerate(entries):
            try:
                self._made.append(self._value(entry))
            except SavedFileError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise SavedFileError(f"entry {number} cannot be made: {reason}") from error

    def value(self, ref: Any) -> Any:
        """The value that a reference stands for."""
        if ref is None or type(ref) in (bool, int, float, str):
            return ref
        if isinstance(ref, dict) and len(ref) == 1:
            (kind, what), *_ = ref.items()
            if kind == "entry" and type(what) is int and 0 <= what < len(self._made):
                return self._made[what]
            if kind == "float" and what in ("nan", "inf", "-inf"):
                return float(what)
        raise SavedFileError(f"{str(ref)[:80]!r} is no reference to an entry before it")

    def _value(self, entry: Any) -> Any:
        if not isinstance(entry, dict) or not entry:
            raise SavedFileError(f"{str(entry)[:80]!r} is no entry")
        kind = next(iter(entry))
        reader = _READERS.get(kind)
        if reader is None:
            raise SavedFileError(f"{kind[:80]!r} is no kind of entry")
        return reader(self, entry)

    def array(self, entry: dict[str, Any]) -> Any:
        """An array of its own for each entry."""
        array = self._arrays[_index(entry["array"], len(self._arrays))]
        array.setflags(write=entry["writeable"] is True)
        return array

    def number(self, entry: dict[str, Any]) -> Any:
        """A number of numpy."""
        array = self._arrays[_index(entry["number"], len(self._arrays))]
        if array.shape != ():
            raise SavedFileError(f"a number has the shape {array.shape}")
        return array[()]

    def items(self, entry: dict[str, Any]) -> Any:
        """A container without keys."""
        ((name, refs),) = entry.items()
        return _CONTAINERS[name](self.value(ref) for ref in refs)

    def queue(self, entry: dict[str, Any]) -> Any:
        """A queue of at most so many."""
        most = entry["most"]
        if most is not None and type(most) is not int:
            raise SavedFileError(f"a queue has the length {most!r}")
        return deque((self.value(ref) for ref in entry["deque"]), most)

    def pairs(self, entry: dict[str, Any]) -> Any:
        """A mapping."""
        ((name, refs),) = entry.items()
        found = {self.value(key): self.value(each) for key, each in refs}
        return found if name == "dict" else types.MappingProxyType(found)

    def generator(self, entry: dict[str, Any]) -> np.random.Generator:
        """A generator of numpy."""
        state = self.value(entry["generator"])
        names = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
        if state["bit_generator"] not in names:
            raise SavedFileError(f"{state['bit_generator']!r} is no generator; there are {names}")
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def choice(self, entry: dict[str, Any]) -> Any:
        """A member of an enumeration of the project."""
        kind = self._class(entry["choice"].removeprefix("tvbandits."))
        if not issubclass(kind, enum.Enum):
            raise SavedFileError(f"{entry['choice']!r} is no enumeration")
        return kind[entry["is"]]

    def kernel(self, entry: dict[str, Any]) -> Any:
        """A kernel, by the list or of the project."""
        name, parts = entry["kernel"], self._named_parts(entry)
        if ":" not in name:
            if name not in KERNELS:
                raise SavedFileError(f"{name[:80]!r} is no kernel that can be read")
            return getattr(kernel_module, name)(**parts)
        kind = self._class(name)
        if not issubclass(kind, Kernel):
            raise SavedFileError(f"{name[:80]!r} is no kernel")
        return kind(**parts)

    def made(self, entry: dict[str, Any]) -> Any:
        """A value of the project."""
        kind, parts = self._class(entry["value"]), self._named_parts(entry)
        again: Callable[..., Any] | None = getattr(kind, "__restored__", None)
        if again is not None:
            return again(**parts)
        if not _is_known(kind):
            raise SavedFileError(f"{entry['value']!r} is nothing that can be read back")
        return kind(**parts)

    def own(self, entry: dict[str, Any]) -> Any:
        """A part of the user's."""
        name = entry["own"]
        if name not in self._trusted:
            raise UnknownPartError(
                f"it uses {name!r}, which is not part of the package and is not imported because a "
                f"file says so: hand it over, as in trusted={{{name!r}: ...}}"
            )
        return self._trusted[name]

    def _named_parts(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {str(name): self.value(ref) for name, ref in entry["with"].items()}

    def _class(self, place: str) -> type:
        """A class of the project by its place, which is inside of the houses."""
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise SavedFileError(f"{str(place)[:80]!r} is no place of a class")
        module, _, name = place.partition(":")
        if module.split(".")[0] not in HOUSES or module.startswith(OUTSIDE):
            raise SavedFileError(f"{place!r} is nothing that can be read back")
        try:
            found = getattr(importlib.import_module(f"tvbandits.{module}"), name, None)
        except ImportError as error:
            raise SavedFileError(f"{place!r} is not known to this version: {error}") from error
        if not isinstance(found, type) or found.__module__ != f"tvbandits.{module}":
            raise SavedFileError(f"{place!r} is not known to this version")
        return found


_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
}

_READERS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "array": Decoder.array,
    "number": Decoder.number,
    **dict.fromkeys(_CONTAINERS, Decoder.items),
    "deque": Decoder.queue,
    "dict": Decoder.pairs,
    "mapping": Decoder.pairs,
    "bytes": lambda _, entry: bytes.fromhex(entry["bytes"]),
    "generator": Decoder.generator,
    "choice": Decoder.choice,
    "kernel": Decoder.kernel,
    "value": Decoder.made,
    "own": Decoder.own,
}


def _index(number: Any, count: int) -> int:
    if type(number) is not int or not 0 <= number < count:
        raise SavedFileError(f"there is no array {number!r}")
    return number
