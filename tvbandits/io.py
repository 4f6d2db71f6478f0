"""Saved files: structure in JSON and arrays in .npy, in one zip that runs nothing.

`to_bytes` turns a value into a tree of plain values, in which an instance of a class is the class's name
and its fields, and an array is the number of a member of the zip. `from_bytes` makes the values again.
Only classes in `CLASSES` are made, by their constructors, from fields of the types that they declare.
Classes and functions of the user are saved as `module:name`, and the caller passes them when the file is
read: a file never decides what is imported.

Files are written beside their place and renamed, so that they are complete or not there. Reading has
limits, which the environment can raise.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import lzma
import math
import os
import re
import reprlib
import sqlite3
import stat
import tempfile
import types
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tvbandits.validation import clean, describe, error_line, file_path, of_kind

# The classes that a saved file may hold, by their modules.
CLASSES = {
    "sklearn.gaussian_process.kernels": "CompoundKernel ConstantKernel DotProduct ExpSineSquared "
    "Exponentiation Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel",
    "tvbandits.domains.availability": "Available",
    "tvbandits.acquisition.batches": "Batching GlobalRatio LocalRatio One ProductRatio",
    "tvbandits.acquisition.widths": "BBKBProgramWidth BBKBWidth BKBWidth Fixed Logarithmic "
    "PlaysAtATime Srinivas Theory ThompsonWidth",
    "tvbandits.acquisition.rules": "PersistentBound RandomFirst SampledBound SpreadFirst "
    "ThompsonSampling UpperConfidenceBound",
    "tvbandits.bandit.bandit": "Bandit",
    "tvbandits.bandit.info": "Info ModelInfo PosteriorInfo QueryInfo",
    "tvbandits.bandit.options": "Options",
    "tvbandits.bandit.recipe": "Recipe",
    "tvbandits.bandit.state": "ModelState QueryState State",
    "tvbandits.domains.box": "Box",
    "tvbandits.domains.candidates": "Candidates CandidatesInContext",
    "tvbandits.clock": "Clock",
    "tvbandits.counts": "Counted",
    "tvbandits.acquisition.limits": "Limit",
    "tvbandits.domains.moving": "Position",
    "tvbandits.data": "Dataset Expired Outliers Plays Record",
    "tvbandits.domains.parameters": "Category Choice Integer Log Periodic Real",
    "tvbandits.domains.space": "Arms Space Table",
    "tvbandits.domains.space_kernel": "PerParameter",
    "tvbandits.datasets.arms": "AutoregressiveArms Banners BannersByDay SwitchingArms WearingArms",
    "tvbandits.datasets.fields": "Field Kind",
    "tvbandits.datasets.hidden": "BerkenkampToy NarrowBump",
    "tvbandits.datasets.lifted": "Function Lifted",
    "tvbandits.datasets.limited": "BumpAndWall HeatPump QuietNetwork",
    "tvbandits.datasets.peaks": "GeneralisedMovingPeaks MovingPeaks NewPeak",
    "tvbandits.datasets.synthetic": "DriftingBump Exoskeleton GPDrift Switching TimedParabola",
    "tvbandits.experts.budgeted": "Budgeted Spending",
    "tvbandits.experts.calibrated": "Calibrated Calibration",
    "tvbandits.experts.functions": "CallableExpert SimulatorExpert",
    "tvbandits.experts.retrying": "Retrying",
    "tvbandits.forgetting.aging": "Ages Composition Constant DiscardAbove Exponential Linear "
    "LogThreshold ResetEvery Wiener Window",
    "tvbandits.forgetting.event_trigger": "EventTrigger",
    "tvbandits.gp.ensemble.arms": "ArmFilters ArmsPosterior EffectFilters GridSpec IndependentArms",
    "tvbandits.gp.ensemble.counted_arms": "CountFilters",
    "tvbandits.gp.ensemble.candidate_posterior": "Readings",
    "tvbandits.gp.ensemble.empirical": "EmpiricalSpace",
    "tvbandits.gp.ensemble.dynamics": "Dynamics Transition",
    "tvbandits.gp.ensemble.filters": "Filters Innovations StepReadings",
    "tvbandits.gp.ensemble.mixture": "CurrentStep FilterEnsemble InactiveModels ModelGroup",
    "tvbandits.gp.ensemble.models": "ModelSpec Season SpatialSpec",
    "tvbandits.gp.ensemble.posterior": "EnsemblePosterior ModelEnsemble ReplayBuffer",
    "tvbandits.gp.ensemble.forecasts": "Forecast MixtureMoments MixturePrediction",
    "tvbandits.gp.ensemble.seasons": "SeasonSearch",
    "tvbandits.gp.calibration": "IntervalCalibration",
    "tvbandits.gp.noise": "NoiseEstimate",
    "tvbandits.gp.online": "Every Learned",
    "tvbandits.gp.standardisation": "Scaling",
    "tvbandits.gp.kernels.matern": "Coordinates",
    "tvbandits.gp.kernels.space_time": "Beside Drift Leaf OnSpace OnTime",
    "tvbandits.gp.kernels.units": "InUnits",
    "tvbandits.gp.cholesky": "ExactPosterior",
    "tvbandits.gp.exact": "Exact",
    "tvbandits.gp.features": "Features SpaceFeatures Term",
    "tvbandits.gp.lookahead": "JointPosterior",
    "tvbandits.gp.posterior": "AppendBuffer CandidateGrid Data GridPosterior Groups",
    "tvbandits.gp.sparse": "Nystrom SparsePosterior TheoryOversampling",
    "tvbandits.gp.sparse_filter": "NystromFilter",
    "tvbandits.gp.state_space": "Filter ObservationModel StateSpace StateSpacePosterior",
    "tvbandits.policies.baselines": "EpsilonGreedy RegularisedEvolution Uniform",
    "tvbandits.policies.beta_bernoulli": "BetaBernoulli",
    "tvbandits.policies.mini": "RepeatedUpperBound",
    "tvbandits.policies.rivals.balancing": "LengthScaleBalancing",
    "tvbandits.policies.rivals.multi_scale": "Block Copy Master Thresholds",
    "tvbandits.policies.rivals.opkb": "Constants Epoch Opkb Replay",
    "tvbandits.policies.rivals.predictive": "ArmFilter PredictiveSampling",
    "tvbandits.policies.rivals.time_as_input": "DesiredOutcome",
    "tvbandits.policies.rivals.wdbo": "Hyperparameters Optimism Relevant",
    "tvbandits.bandit.adapter": "PolicyAdapter RunningMean",
    "tvbandits.queries.k_dpp": "Sample",
    "tvbandits.queries.plans": "QueryConfig Following KDPP LogSchedule NextDecision OnAverage "
    "PerStep PlausibleMaximizers PlayedPool Pool RandomPoints",
}
_MODULES = {name: module for module, names in CLASSES.items() for name in names.split()}

FORMAT, VERSION = "tvbandits saved file", 13
STRUCTURE = "structure.json"

# Parts of the user's, by `module:name`.
Trusted = Mapping[str, Any]

# The most bytes after unpacking, or of a table's cells at 8 bytes each; the most rows and columns.
LIMITS = {"unpacked_bytes": 500_000_000, "rows": 20_000_000, "columns": 20_000}
ENVIRONMENT = "TVBANDITS_READ_"  # and a limit's name in capitals: the variable that raises it


@dataclass(frozen=True)
class Limits:
    """The limits of a saved file, beyond which it is not read.

    Attributes
    ----------
    structure : int
        Bytes of the structure, which take seconds to read.
    depth : int
        How deep values nest; 12 for every policy.
    kernels : int
        Kernels in a file.
    bits : int
        Bits of a whole number: those of a generator's state.
    key : int
        Largest whole number that is a key: larger ones may all have one hash, and a dictionary of them
        takes for ever.
    sharing : int
        How many times larger the arrays are with those that are shared counted each time.
    """

    structure: int = 8_000_000
    depth: int = 100
    kernels: int = 2_000
    bits: int = 128
    key: int = 2**61 - 2
    sharing: int = 20


_MOST = Limits()

_DIGEST = 64  # hexadecimal digits of the SHA-256 of all bytes before them: the comment of the zip
_ARRAY_KINDS = "biufcSU"  # of fixed size, and no objects, whose numbers would be a pickle
_NAME = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*:[A-Za-z_]\w*")


class SavedFileError(ValueError):
    """A file is not one that was saved, or was changed since."""


# --- values ---------------------------------------------------------------------------------------


def to_bytes(value: Any) -> bytes:
    """Return the bytes of a saved file that holds a value.

    Raises
    ------
    ValueError
        If a part of it has no name that can be imported.
    """
    encoder = Encoder()
    try:
        root = encoder.encode(value)
    except RecursionError:
        raise ValueError(f"{type(value).__name__} holds itself, and cannot be saved") from None
    return _zip({"format": FORMAT, "version": VERSION, "value": root}, encoder.arrays)


def from_bytes(data: bytes, trusted: Trusted | None = None) -> Any:
    """Return the value that `to_bytes` was called with.

    Raises
    ------
    SavedFileError
        If the bytes are not those of a saved file, are damaged, or need a part that is not trusted.
    ValueError
        If there are more of them than the limit of unpacked bytes (`check_size`).
    """
    return SavedFile(data, trusted).value()


def save_value(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value to a file, wholly or not at all.

    Raises
    ------
    ValueError
        If a part of it cannot be saved, or the path is invalid.
    OSError
        If the file cannot be written; one of that name stays as it was.
    """
    write_whole(file_path("path", path), to_bytes(value))


class Encoder:
    """Turns values into trees of plain values.

    Attributes
    ----------
    arrays : list of arrays
        Those that the trees refer to by number; a shared one is there once.
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any) -> Any:
        """Return a plain value as it is, and for any other a mapping whose first key is its kind."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return {"array": self._number(value), "writeable": bool(value.flags.writeable)}
        if isinstance(value, np.generic):
            return {"scalar": self._number(np.asarray(value))}
        if kind in (tuple, list):
            return {kind.__name__: [self.encode(each) for each in value]}
        if kind is dict:
            return {"dict": [[self.encode(key), self.encode(each)] for key, each in value.items()]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(dict(value.bit_generator.state))}
        if is_registered(kind):
            parts = {name: self.encode(part) for name, part in _fields_of(value).items()}
            return {"class": kind.__name__, "fields": parts}
        name = name_of(value)
        if not _NAME.fullmatch(name):
            needs = "must stand in a module by its name, not inside of a function"
            raise ValueError(f"{name} cannot be saved: a part of your own {needs}")
        return {"own": name}

    def _number(self, array: NDArray[Any]) -> int:
        """Return the number of an array."""
        if array.dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"an array of {array.dtype} cannot be saved")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)  # while it is here, no other array has its id
        return self._numbers[id(array)]


def is_registered(kind: type) -> bool:
    """Return whether a saved file may hold instances of a class."""
    return _MODULES.get(kind.__name__) == kind.__module__


def name_of(value: Any) -> str:
    """Return `module:name` of a class or a function, or of the class of anything else."""
    definition = value if isinstance(value, type | types.FunctionType) else type(value)
    module = definition.__module__
    # Names of the package itself are without modules, which may move.
    return f"{'tvbandits' if module.startswith('tvbandits.') else module}:{definition.__qualname__}"


def _is_kernel(kind: type) -> bool:
    """Return whether a class is one of kernels, which have parameters instead of fields."""
    return hasattr(kind, "get_params")


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the arguments that make an equal instance."""
    if _is_kernel(type(value)):
        return dict(value.get_params(deep=False))
    if hasattr(value, "__saved__"):
        return dict(value.__saved__())
    if isinstance(value, tuple):
        return dict(value._asdict())  # type: ignore[attr-defined]
    return {each.name: getattr(value, each.name) for each in fields(value) if each.init}


class SavedFile:
    """The content of a saved file, of which only the parts that are read are made or imported.

    Parameters
    ----------
    data : bytes
    trusted : mapping of str to object, optional
        The user's own parts, by "module:name".

    Raises
    ------
    SavedFileError, ValueError
        As `from_bytes`.
    """

    def __init__(self, data: bytes, trusted: Trusted | None = None) -> None:
        self._trusted = {} if trusted is None else trusted
        of_kind("trusted", self._trusted, Mapping, "a mapping by 'module:name'")
        structure, self._arrays = _unzip(data)
        self._root: Any = structure.get("value")
        self._copies: dict[tuple[int, bool], NDArray[Any]] = {}
        self._bytes_left = len(data) * _MOST.sharing
        self._kernels_left, self._depth = _MOST.kernels, 0

    def value(self, *path: str) -> Any:
        """Return the value at a path of keys of dictionaries and names of fields; by default, all."""
        return self._decode(self._at(path))

    def _at(self, path: Sequence[str]) -> Any:
        """Return the tree at a path."""
        tree = self._root
        for name in path:
            tree = (tree.get("fields") or dict(tree["dict"]))[name]
        return tree

    def _decode(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if tree is None or type(tree) in (bool, float, str):
            return tree
        if type(tree) is int and tree.bit_length() <= _MOST.bits:
            return tree
        if not isinstance(tree, dict) or not tree:
            raise SavedFileError(f"{str(tree)[:80]!r} is no value")
        (kind, what), *_ = tree.items()
        self._depth += 1
        if self._depth > _MOST.depth:
            raise SavedFileError(f"its values nest deeper than the limit of {_MOST.depth}")
        try:
            return self._value(kind, what, tree)
        except SavedFileError:
            raise
        except Exception as error:
            name = f"{kind} {what}" if kind == "class" else kind
            raise SavedFileError(f"a {name[:80]} cannot be made: {error_line(error)}") from error
        finally:
            self._depth -= 1

    def _value(self, kind: str, what: Any, tree: dict[str, Any]) -> Any:
        match kind:
            case "float":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[what]
            case "array":
                return self._array(what, tree["writeable"] is True)
            case "scalar":
                return self._array(what, writeable=False).reshape(())[()]
            case "tuple":
                return tuple([self._decode(each) for each in what])
            case "list":
                return [self._decode(each) for each in what]
            case "dict":
                return {_key(self._decode(key)): self._decode(each) for key, each in what}
            case "bytes":
                return bytes.fromhex(what)
            case "generator":
                return _generator(self._decode(what))
            case "class":
                return self._instance(what, tree["fields"])
            case "own" if what in self._trusted:
                return self._trusted[what]
            case "own":
                part = "Candidates(path).rows" if what == "tvbandits:MappedRows" else "..."
                raise SavedFileError(
                    f"it uses {what!r}, which is not part of it, and is not taken because a file says "
                    f"so: hand it over, as in trusted={{{what!r}: {part}}}"
                )
        raise SavedFileError(f"{kind[:80]!r} is no kind of value")

    def _array(self, number: Any, writeable: bool) -> NDArray[Any]:
        """Return an array, the same one at each reference to it."""
        if type(number) is not int or not 0 <= number < len(self._arrays):
            raise SavedFileError(f"there is no array {str(number)[:80]}")
        self._bytes_left -= self._arrays[number].nbytes
        if self._bytes_left < 0:
            raise SavedFileError(
                f"its arrays are more than {_MOST.sharing} times as large as the file"
            )
        if (number, writeable) not in self._copies:
            array = self._copies[number, writeable] = self._arrays[number].copy(order="K")
            array.setflags(write=writeable)
        return self._copies[number, writeable]

    def _instance(self, name: Any, trees: dict[str, Any]) -> Any:
        """Return an instance of a class in `CLASSES`, from fields of the types that it declares."""
        if name not in _MODULES:
            raise SavedFileError(f"{str(name)[:80]!r} is no class of this version")
        kind: type = getattr(import_module(_MODULES[name]), name)
        self._kernels_left -= _is_kernel(kind)
        if self._kernels_left < 0:
            raise SavedFileError(f"it holds more than {_MOST.kernels} kernels")
        parts = {field: self._decode(each) for field, each in trees.items()}
        check_types(kind, parts)
        return _maker(kind)(**parts)


def _maker(kind: Any) -> Callable[..., Any]:
    """Return the function that makes an instance: the class, or its own for the fields it saves."""
    return kind.__restored__ if hasattr(kind, "__restored__") else kind  # type: ignore[no-any-return]


def _generator(state: Any) -> np.random.Generator:
    """Return a generator of random numbers in a state."""
    names = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    if state["bit_generator"] not in names:
        raise SavedFileError(f"{state['bit_generator']!r} is no generator; there are {names}")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _key(key: Any) -> Any:
    """Return a key of a mapping, which is plain and has a hash that nobody can choose."""
    if type(key) in (str, bytes) or (type(key) is int and abs(key) <= _MOST.key):
        return key
    raise SavedFileError(f"{str(key)[:80]!r} cannot be a key")


# --- the zip --------------------------------------------------------------------------------------


def _zip(structure: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return the bytes of a zip of a structure and of arrays, with their checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        # A member without a date has a fixed one: the same values make the same bytes.
        text = json.dumps(structure, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo(STRUCTURE), text.encode())
        for number, array in enumerate(arrays):
            npy = io.BytesIO()
            np.lib.format.write_array(npy, np.asarray(array), version=(1, 0), allow_pickle=False)
            with npy.getbuffer() as content:
                archive.writestr(zipfile.ZipInfo(_member(number)), content)
        archive.comment = b"0" * _DIGEST
    with buffer.getbuffer() as view:
        view[-_DIGEST:] = hashlib.sha256(view[:-_DIGEST]).hexdigest().encode()
    return buffer.getvalue()


def _unzip(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return the structure and the arrays of a complete and unchanged file of this version."""
    check_size("unpacked_bytes", len(data))
    if data[:4] != b"PK\x03\x04":
        raise SavedFileError(f"it is not a saved file: it begins with {data[:8]!r}")
    if hashlib.sha256(memoryview(data)[:-_DIGEST]).hexdigest().encode() != data[-_DIGEST:]:
        raise SavedFileError("it is cut or changed: its checksum is not that of its content")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            names = [STRUCTURE, *map(_member, range(len(infos) - 1))]
            if [info.filename for info in infos] != names:
                raise SavedFileError("its members are not those of a saved file")
            compressed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
            if compressed or sum(info.file_size for info in infos) > len(data):
                raise SavedFileError("its members are compressed or overlap, which none should")
            structure = _structure(archive.read(STRUCTURE))
            return structure, [_array_in(name, archive.read(name)) for name in names[1:]]
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise SavedFileError(f"it is damaged: {error}") from error


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


def _structure(text: bytes) -> dict[str, Any]:
    """Return the structure of a file of this version."""
    if len(text) > _MOST.structure:
        raise SavedFileError(f"{STRUCTURE} has {len(text)} bytes, at most {_MOST.structure} may be")
    try:
        structure = json.loads(text.decode(), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{STRUCTURE} cannot be read: {error}") from error
    if not isinstance(structure, dict) or structure.get("format") != FORMAT:
        raise SavedFileError(f"it is not a saved file: {STRUCTURE} does not say {FORMAT!r}")
    if structure.get("version") != VERSION:
        raise SavedFileError(
            f"it is of version {structure.get('version')!r}, and {VERSION} is known here"
        )
    return structure


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python reads in JSON: a `ValueError`."""
    raise ValueError(f"{name} is not JSON")


def _array_in(name: str, npy: bytes) -> NDArray[Any]:
    """Return a view of the bytes of a .npy file, whose header fits its size."""
    stream = io.BytesIO(npy)
    try:
        np.lib.format.read_magic(stream)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in _ARRAY_KINDS or dtype.itemsize == 0:
            raise ValueError(f"it holds {dtype}")
        size = math.prod(shape) * dtype.itemsize
        if size != len(npy) - stream.tell():
            raise ValueError(f"{shape} of {dtype} are not {len(npy) - stream.tell()} bytes")
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.ndarray(shape, dtype, npy, stream.tell(), order=order)
    except Exception as error:  # of whatever kind numpy makes of a header
        raise SavedFileError(f"its member {name!r} is no array: {describe(error)}") from error


# --- types ----------------------------------------------------------------------------------------


def check_types(kind: type, parts: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first field that is not of the type its class declares."""
    hints = _hints(kind)
    for name, part in parts.items():
        if name in hints and not fits(part, hints[name]):
            raise ValueError(f"{name} of {kind.__name__} cannot be {reprlib.repr(part)}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a class by name."""
    maker: Any = _maker(kind)
    if maker is kind and not (is_dataclass(kind) or issubclass(kind, tuple)):
        maker = kind.__init__
    return get_type_hints(maker)


# The types that count as a kind of number; a truth value is of its own alone.
_NUMBERS: dict[Any, Any] = {
    float: float | int | np.floating,
    int: int | np.integer,
    bool: bool | np.bool_,
}


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; True where that cannot be checked, as for a callable."""
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if hasattr(origin, "__value__"):  # of `type X = ...`, as `NDArray` is since numpy 2.5
        return fits(value, origin.__value__[inside] if inside else origin.__value__)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is np.ndarray and inside:
        scalar = get_args(inside[1])[0]
        return isinstance(value, np.ndarray) and (
            isinstance(scalar, TypeVar) or scalar is Any or np.issubdtype(value.dtype, scalar)
        )
    if origin is tuple and inside and inside[-1] is not ...:
        same = isinstance(value, tuple) and len(value) == len(inside)
        return same and all(map(fits, value, inside))
    if origin in (tuple, list, Sequence) and inside:
        # Nearly always all are of exactly that type, and a call for each would take long.
        return isinstance(value, origin) and (
            {*map(type, value)} <= {inside[0]} or all(fits(each, inside[0]) for each in value)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping) and inside:
        return isinstance(value, Mapping) and all(
            fits(key, inside[0]) and fits(each, inside[1]) for key, each in value.items()
        )
    return _is_a(value, origin)


def _is_a(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type without parameters."""
    if kind is None or kind is types.NoneType:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and (kind is bool or not isinstance(value, bool))
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type) or kind is Any:
        return True
    if Protocol in kind.__bases__:
        members = {name for name in vars(kind) if not name.startswith("_") or name == "__call__"}
        own = vars(value).keys() if hasattr(value, "__dict__") else set()
        return not isinstance(value, type) and members <= set(dir(type(value))) | own
    return isinstance(value, kind)


# --- limits of reading ----------------------------------------------------------------------------


def limit_of(name: str) -> int:
    """Return the limit that holds now: of the environment, or the default.

    Raises
    ------
    ValueError
        If the environment variable is no whole number of at least 1.

    Examples
    --------
    >>> from tvbandits.io import limit_of
    >>> print(limit_of("columns"))
    20000
    """
    variable = f"{ENVIRONMENT}{name.upper()}"
    text = os.environ.get(variable, "").strip()
    if text and not (text.isdecimal() and int(text)):
        raise ValueError(f"{variable} must be a whole number of at least 1, got {describe(text)}")
    return int(text) if text else LIMITS[name]


def check_size(name: str, size: int) -> None:
    """Raise a `ValueError` that says how to raise the limit `name`, if a size exceeds it.

    Examples
    --------
    >>> from tvbandits.io import check_size
    >>> check_size("columns", 4)  # within the limit
    """
    most = limit_of(name)
    if size > most:
        raise ValueError(
            f"{size} {name.replace('_', ' ')} or more, and the limit is {most}; if the file is to be "
            f"trusted, set {ENVIRONMENT}{name.upper()} to a larger number"
        )


def limit_cells(connection: sqlite3.Connection) -> None:
    """Let a connection refuse cells beyond the limit of unpacked bytes, before they are read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limit_of("unpacked_bytes"), 2**31 - 1))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `ValueError` of one line that names the file and the reason.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.io import naming
    >>> try:
    ...     with naming(Path("sites.csv")):
    ...         raise ValueError("no column id")
    ... except ValueError as error:
    ...     print(error)
    sites.csv: no column id
    """
    damage = (ValueError, RuntimeError, EOFError, OverflowError)
    try:
        yield
    except OSError as error:
        reason = " ".join((error.strerror or str(error)).split())
        raise ValueError(f"{path}: {reason}") from None
    except MemoryError:
        raise ValueError(f"{path}: there is not enough memory to read it") from None
    except (*damage, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        # Parser errors can run over several lines, and headings may hold control characters.
        reason = " ".join(str(error).removeprefix(f"{path}: ").split())
        raise ValueError(f"{path}: {clean(reason)}") from None


def check_regular(path: Path) -> None:
    """Raise an error for a device, a pipe, a folder, or an empty file."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file, but a device or a pipe")
    if status.st_size == 0:  # also of files of the system itself, some of which do not end
        raise ValueError("the file is empty")


# --- writing --------------------------------------------------------------------------------------


def replace_file(
    path: Path,
    write: Callable[[Path], object],
    *,
    durable: bool = False,
    replaces: Callable[[Path], bool] | None = None,
) -> None:
    """Let `write` fill a draft, and rename it, so that `path` is complete or as it was.

    Parameters
    ----------
    path : Path
    write : callable
        Called with the draft, in a folder of its own beside `path` and of the same name, which some
        formats need. Other files that `write` leaves in that folder are removed.
    durable : bool
        The content is on the disk before the name is, so that a power cut leaves no empty file.
    replaces : callable, optional
        Whether the file at `path` may be replaced; a folder or a link never is. By default anything may.

    Raises
    ------
    FileExistsError
        If there is a file that may not be replaced.
    OSError
        If it cannot be written; what was there before stays as it was.
    """
    if not path.parent.exists():  # named as the caller does, not as its draft
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        write(draft)
        if durable:
            _sync(draft)
        if replaces is None or (is_plain(path) and replaces(path)):
            draft.replace(path)
        else:
            _link_new(draft, path)
    if durable and hasattr(os, "O_DIRECTORY"):  # the new name is on the disk, too
        _sync(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file wholly or not at all, to the disk.

    Other users may not read it: it is for saved bandits, and for secrets.

    Raises
    ------
    OSError
        If it cannot be written; what was there before stays as it was.
    """

    def write(draft: Path) -> None:
        draft.touch(mode=0o600)
        draft.write_bytes(data)

    replace_file(path, write, durable=True)


def is_plain(path: Path) -> bool:
    """Return whether there is a file, and no folder, link, or device."""
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def _link_new(draft: Path, path: Path) -> None:
    """Give a draft a name that no file has."""
    try:
        os.link(draft, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path}: there is something already") from None
        draft.rename(path)  # on a disk without hard links


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- plain values for JSON ------------------------------------------------------------------------


def to_plain(value: Any, not_finite: Callable[[float], str | None]) -> Any:
    """Return plain values for JSON: dates become texts, and `not_finite` replaces NaN and infinity."""
    if hasattr(value, "tolist"):
        return to_plain(value.tolist(), not_finite)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, not_finite) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each, not_finite) for each in value]
    return value


def without_nan(value: Any) -> Any:
    """Return plain values for JSON, with null for NaN and infinity."""
    return to_plain(value, lambda _: None)
