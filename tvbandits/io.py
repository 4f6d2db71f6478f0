"""Saved files: a zip of a structure in JSON and arrays in .npy, which runs no code when it is read.

`to_bytes` turns a value into a tree of plain values, in which an instance of a class is the class's name
with its fields, and an array is the number of a member of the zip. `from_bytes` restores the value. It
creates instances only of classes in `CLASSES`, by their constructors, from fields of the types that the
classes declare. Classes and functions of the user are saved as `module:name`, and the caller passes them
when the file is read: a file never decides what is imported.

Files are written to a draft and renamed, so that a file is complete or does not exist. Reading has
limits, which environment variables can raise.
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

from tvbandits.validation import check_instance, clean, describe, describe_error, file_path

# The classes whose instances a saved file may contain, by their modules.
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
    "tvbandits.gp.ensemble.filters": "Filters Innovations",
    "tvbandits.gp.ensemble.mixture": "CurrentStep FilterEnsemble",
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
    "tvbandits.policies.rivals.wdbo": "Hyperparameters ReadingBound Relevant",
    "tvbandits.bandit.adapter": "PolicyAdapter RunningMean",
    "tvbandits.queries.k_dpp": "Sample",
    "tvbandits.queries.plans": "QueryConfig Following KDPP LogSchedule NextDecision OnAverage "
    "PerStep PlausibleMaximizers PlayedPool Pool RandomPoints",
}
_MODULES = {name: module for module, names in CLASSES.items() for name in names.split()}

FORMAT, VERSION = "tvbandits saved file", 14
STRUCTURE = "structure.json"

# Classes and functions of the user, by `module:name`.
TrustedParts = Mapping[str, Any]

# The largest numbers of bytes after unpacking (a table has 8 bytes for each cell), rows and columns.
LIMITS = {"unpacked_bytes": 500_000_000, "rows": 20_000_000, "columns": 20_000}
ENVIRONMENT = (
    "TVBANDITS_READ_"  # followed by a limit's name in capitals: the variable that raises it
)


@dataclass(frozen=True)
class FileLimits:
    """The limits beyond which a saved file is refused.

    Attributes
    ----------
    structure : int
        Bytes of the structure; as many as this take seconds to read.
    depth : int
        Levels of nested values; the files of all policies have at most 12.
    kernels : int
        Kernels in a file.
    bits : int
        Bits of a whole number; the state of a generator has as many.
    key : int
        The largest whole number as a key. Larger ones can be chosen to have the same hash, which makes
        a dictionary of them endlessly slow.
    sharing : int
        The total size of arrays, counted at each reference to them, as a multiple of the file's size.
    """

    structure: int = 8_000_000
    depth: int = 100
    kernels: int = 2_000
    bits: int = 128
    key: int = 2**61 - 2
    sharing: int = 20


_FILE_LIMITS = FileLimits()

_DIGEST = 64  # hexadecimal digits in the comment of the zip: the SHA-256 of all bytes before them
_ARRAY_KINDS = "biufcSU"  # types of fixed size; arrays of objects would have to be pickled
_NAME = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)*:[A-Za-z_]\w*")


class SavedFileError(ValueError):
    """An error for a file that is not a saved file, or was changed after it was saved."""


# --- values ---------------------------------------------------------------------------------------


def to_bytes(value: Any) -> bytes:
    """Return the bytes of a saved file that contains a value.

    Raises
    ------
    ValueError
        If a part of the value has no name that can be imported, or the value contains itself.
    """
    encoder = Encoder()
    try:
        root = encoder.encode(value)
    except RecursionError:
        raise ValueError(f"{type(value).__name__} contains itself and cannot be saved") from None
    return _zip({"format": FORMAT, "version": VERSION, "value": root}, encoder.arrays)


def from_bytes(data: bytes, trusted: TrustedParts | None = None) -> Any:
    """Return the value that `to_bytes` was called with.

    Raises
    ------
    SavedFileError
        If the bytes are not those of a saved file, are damaged, or need a part that `trusted` lacks.
    ValueError
        If their number exceeds the limit of unpacked bytes (`check_size`).
    """
    return SavedFile(data, trusted).value()


def save_value(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value to a file, wholly or not at all.

    Raises
    ------
    ValueError
        If a part of the value cannot be saved, or the path is invalid.
    OSError
        If the file cannot be written; an earlier file of that name stays as it was.
    """
    write_atomically(file_path("path", path), to_bytes(value))


class Encoder:
    """An encoder that turns values into trees of plain values.

    Attributes
    ----------
    arrays : list of arrays
        The arrays to which the trees refer by number; a shared array is listed once.
    """

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any) -> Any:
        """Return a plain value unchanged, and for any other a mapping whose first key is its kind."""
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
            return {kind.__name__: [self.encode(item) for item in value]}
        if kind is dict:
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if kind is bytes:
            return {"bytes": value.hex()}
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(dict(value.bit_generator.state))}
        if is_registered(kind):
            parts = {name: self.encode(part) for name, part in _get_arguments(value).items()}
            return {"class": kind.__name__, "fields": parts}
        name = qualified_name(value)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name} cannot be saved: define it in a module, not inside of a function"
            )
        return {"own": name}

    def _number(self, array: NDArray[Any]) -> int:
        """Return the number of an array, and list the array if it is new."""
        if array.dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"an array of {array.dtype} cannot be saved")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)  # while it is listed, no other array can have its id
        return self._numbers[id(array)]


def is_registered(kind: type) -> bool:
    """Return whether a saved file may contain instances of a class."""
    return _MODULES.get(kind.__name__) == kind.__module__


def qualified_name(value: Any) -> str:
    """Return `module:name` of a class or a function, or of the class of anything else."""
    definition = value if isinstance(value, type | types.FunctionType) else type(value)
    module = definition.__module__
    # The package's own names are saved without their modules, which may change.
    return f"{'tvbandits' if module.startswith('tvbandits.') else module}:{definition.__qualname__}"


def _is_kernel(kind: type) -> bool:
    """Return whether a class is a kernel, which has parameters instead of fields."""
    return hasattr(kind, "get_params")


def _get_arguments(value: Any) -> dict[str, Any]:
    """Return the arguments with which an equal instance can be created."""
    if _is_kernel(type(value)):
        return dict(value.get_params(deep=False))
    if hasattr(value, "__saved__"):
        return dict(value.__saved__())
    if isinstance(value, tuple):
        return dict(value._asdict())  # type: ignore[attr-defined]
    return {item.name: getattr(value, item.name) for item in fields(value) if item.init}


class SavedFile:
    """The content of a saved file, whose values are created when they are read.

    Parameters
    ----------
    data : bytes
    trusted : mapping of str to object, optional
        Classes and functions of the user, by "module:name".

    Raises
    ------
    SavedFileError, ValueError
        As `from_bytes`.
    """

    def __init__(self, data: bytes, trusted: TrustedParts | None = None) -> None:
        self._trusted = {} if trusted is None else trusted
        check_instance("trusted", self._trusted, Mapping, "a mapping by 'module:name'")
        structure, self._arrays = _unzip(data)
        self._root: Any = structure.get("value")
        self._copies: dict[tuple[int, bool], NDArray[Any]] = {}
        self._bytes_left = len(data) * _FILE_LIMITS.sharing
        self._kernels_left, self._depth = _FILE_LIMITS.kernels, 0

    def value(self, *path: str) -> Any:
        """Return the value at a path of dictionary keys and field names; by default the whole value."""
        return self._decode(self._find_tree(path))

    def _find_tree(self, path: Sequence[str]) -> Any:
        """Return the tree at a path of dictionary keys and field names."""
        tree = self._root
        for name in path:
            tree = (tree.get("fields") or dict(tree["dict"]))[name]
        return tree

    def _decode(self, tree: Any) -> Any:
        """Return the value that a tree encodes."""
        if tree is None or type(tree) in (bool, float, str):
            return tree
        if type(tree) is int and tree.bit_length() <= _FILE_LIMITS.bits:
            return tree
        if not isinstance(tree, dict) or not tree:
            raise SavedFileError(f"{str(tree)[:80]!r} is no value")
        (kind, content), *_ = tree.items()
        self._depth += 1
        if self._depth > _FILE_LIMITS.depth:
            raise SavedFileError(f"its values nest deeper than the limit of {_FILE_LIMITS.depth}")
        try:
            return self._decode_mapping(kind, content, tree)
        except SavedFileError:
            raise
        except Exception as error:
            name = f"{kind} {content}" if kind == "class" else kind
            raise SavedFileError(
                f"a {name[:80]} cannot be made: {describe_error(error)}"
            ) from error
        finally:
            self._depth -= 1

    def _decode_mapping(self, kind: str, content: Any, tree: dict[str, Any]) -> Any:
        """Return the value of a mapping whose first key is the kind of the value."""
        match kind:
            case "float":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
            case "array":
                return self._get_array(content, tree["writeable"] is True)
            case "scalar":
                return self._get_array(content, writeable=False).reshape(())[()]
            case "tuple":
                return tuple([self._decode(item) for item in content])
            case "list":
                return [self._decode(item) for item in content]
            case "dict":
                return {_check_key(self._decode(key)): self._decode(item) for key, item in content}
            case "bytes":
                return bytes.fromhex(content)
            case "generator":
                return _restore_generator(self._decode(content))
            case "class":
                return self._make_instance(content, tree["fields"])
            case "own" if content in self._trusted:
                return self._trusted[content]
            case "own":
                part = "Candidates(path).rows" if content == "tvbandits:MappedRows" else "..."
                raise SavedFileError(
                    f"it uses {content!r}, which it does not contain and may not import: if you trust "
                    f"the file, pass that object, as in trusted={{{content!r}: {part}}}"
                )
        raise SavedFileError(f"{kind[:80]!r} is no kind of value")

    def _get_array(self, number: Any, writeable: bool) -> NDArray[Any]:
        """Return an array by its number: the same object at each reference."""
        if type(number) is not int or not 0 <= number < len(self._arrays):
            raise SavedFileError(f"there is no array {str(number)[:80]}")
        self._bytes_left -= self._arrays[number].nbytes
        if self._bytes_left < 0:
            raise SavedFileError(
                f"its arrays are more than {_FILE_LIMITS.sharing} times as large as the file"
            )
        if (number, writeable) not in self._copies:
            array = self._copies[number, writeable] = self._arrays[number].copy(order="K")
            array.setflags(write=writeable)
        return self._copies[number, writeable]

    def _make_instance(self, name: Any, trees: dict[str, Any]) -> Any:
        """Return an instance of a class in `CLASSES`, after checking the types of its fields."""
        if name not in _MODULES:
            raise SavedFileError(f"{str(name)[:80]!r} is no class of this version")
        kind: type = getattr(import_module(_MODULES[name]), name)
        self._kernels_left -= _is_kernel(kind)
        if self._kernels_left < 0:
            raise SavedFileError(f"it contains more than {_FILE_LIMITS.kernels} kernels")
        parts = {field: self._decode(tree) for field, tree in trees.items()}
        check_types(kind, parts)
        return _constructor(kind)(**parts)


def _constructor(kind: Any) -> Callable[..., Any]:
    """Return the function that creates an instance of a class from its saved fields."""
    return kind.__restored__ if hasattr(kind, "__restored__") else kind  # type: ignore[no-any-return]


def _restore_generator(state: Any) -> np.random.Generator:
    """Return a generator of random numbers with a given state."""
    names = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    if state["bit_generator"] not in names:
        raise SavedFileError(f"{state['bit_generator']!r} is no generator; there are {names}")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _check_key(key: Any) -> Any:
    """Return a key of a mapping, unless it is of a type or size whose hash an attacker could choose."""
    if type(key) in (str, bytes) or (type(key) is int and abs(key) <= _FILE_LIMITS.key):
        return key
    raise SavedFileError(f"{str(key)[:80]!r} cannot be a key")


# --- the zip --------------------------------------------------------------------------------------


def _zip(structure: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return the bytes of a zip of a structure and arrays, with a checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        # A `zipfile.ZipInfo` without a date has a fixed one, so that equal values give equal bytes.
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
    """Return the structure and the arrays of a file, which must be complete and unchanged."""
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
            structure = _parse_structure(archive.read(STRUCTURE))
            return structure, [_view_array(name, archive.read(name)) for name in names[1:]]
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise SavedFileError(f"it is damaged: {error}") from error


def _member(number: int) -> str:
    """Return the name of the member of the zip with an array."""
    return f"arrays/{number}.npy"


def _parse_structure(text: bytes) -> dict[str, Any]:
    """Return the structure of a file, after checking its size, format and version."""
    if len(text) > _FILE_LIMITS.structure:
        raise SavedFileError(
            f"{STRUCTURE} has {len(text)} bytes, at most {_FILE_LIMITS.structure} may be"
        )
    try:
        structure = json.loads(text.decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{STRUCTURE} cannot be read: {error}") from error
    if not isinstance(structure, dict) or structure.get("format") != FORMAT:
        raise SavedFileError(f"it is not a saved file: {STRUCTURE} does not say {FORMAT!r}")
    if structure.get("version") != VERSION:
        raise SavedFileError(
            f"it is of version {structure.get('version')!r}, but this tvbandits reads version {VERSION}"
        )
    return structure


def refuse_constant(name: str) -> float:
    """Raise a `ValueError` for NaN or Infinity, which Python would accept in JSON."""
    raise ValueError(f"{name} is not JSON")


def _view_array(name: str, npy: bytes) -> NDArray[Any]:
    """Return an array that is a view of the bytes of a .npy file, after checking its header."""
    stream = io.BytesIO(npy)
    try:
        np.lib.format.read_magic(stream)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in _ARRAY_KINDS or dtype.itemsize == 0:
            raise ValueError(f"it contains {dtype}")
        size = math.prod(shape) * dtype.itemsize
        if size != len(npy) - stream.tell():
            raise ValueError(f"{shape} of {dtype} are not {len(npy) - stream.tell()} bytes")
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.ndarray(shape, dtype, npy, stream.tell(), order=order)
    except Exception as error:  # numpy raises errors of many types for a damaged header
        raise SavedFileError(f"its member {name!r} is no array: {describe(error)}") from error


# --- types ----------------------------------------------------------------------------------------


def check_types(kind: type, parts: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first field whose value is not of the type declared for it."""
    hints = _hints(kind)
    for name, part in parts.items():
        if name in hints and not matches_type(part, hints[name]):
            raise ValueError(f"{name} of {kind.__name__} cannot be {reprlib.repr(part)}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a class by name."""
    constructor: Any = _constructor(kind)
    if constructor is kind and not (is_dataclass(kind) or issubclass(kind, tuple)):
        constructor = kind.__init__
    return get_type_hints(constructor)


# The types that are accepted for each type of number; truth values are accepted for bool only.
_NUMBERS: dict[Any, Any] = {
    float: float | int | np.floating,
    int: int | np.integer,
    bool: bool | np.bool_,
}


def matches_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type; the arguments of a callable cannot be checked."""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if hasattr(origin, "__value__"):  # an alias `type X = ...`, as `NDArray` is since numpy 2.5
        return matches_type(value, origin.__value__[args] if args else origin.__value__)
    if origin in (Union, types.UnionType):
        return any(matches_type(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if origin is np.ndarray and args:
        scalar = get_args(args[1])[0]
        return isinstance(value, np.ndarray) and (
            isinstance(scalar, TypeVar) or scalar is Any or np.issubdtype(value.dtype, scalar)
        )
    if origin is tuple and args and args[-1] is not ...:
        same_length = isinstance(value, tuple) and len(value) == len(args)
        return same_length and all(map(matches_type, value, args))
    if origin in (tuple, list, Sequence) and args:
        # Items are nearly always of exactly that type; a call for each item would take long.
        return isinstance(value, origin) and (
            {*map(type, value)} <= {args[0]} or all(matches_type(item, args[0]) for item in value)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping) and args:
        return isinstance(value, Mapping) and all(
            matches_type(key, args[0]) and matches_type(item, args[1])
            for key, item in value.items()
        )
    return _is_plain_instance(value, origin)


def _is_plain_instance(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type that has no type arguments."""
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
        attributes = vars(value).keys() if hasattr(value, "__dict__") else set()
        return not isinstance(value, type) and members <= set(dir(type(value))) | attributes
    return isinstance(value, kind)


# --- limits of reading ----------------------------------------------------------------------------


def get_limit(name: str) -> int:
    """Return a limit of reading: from the environment variable if it is set, or the default.

    Raises
    ------
    ValueError
        If the environment variable is not a whole number of at least 1.

    Examples
    --------
    >>> from tvbandits.io import get_limit
    >>> print(get_limit("columns"))
    20000
    """
    variable = f"{ENVIRONMENT}{name.upper()}"
    text = os.environ.get(variable, "").strip()
    if text and not (text.isdecimal() and int(text)):
        raise ValueError(f"{variable} must be a whole number of at least 1, got {describe(text)}")
    return int(text) if text else LIMITS[name]


def check_size(name: str, size: int) -> None:
    """Raise a `ValueError` that says how to raise the limit `name` if a size exceeds it.

    Examples
    --------
    >>> from tvbandits.io import check_size
    >>> check_size("columns", 4)  # within the limit
    """
    limit = get_limit(name)
    if size > limit:
        raise ValueError(
            f"at least {size} {name.replace('_', ' ')}, but the limit is {limit}; if you trust the "
            f"file, set {ENVIRONMENT}{name.upper()} to a larger number"
        )


def limit_cells(connection: sqlite3.Connection) -> None:
    """Make a connection refuse cells beyond the limit of unpacked bytes before it reads them."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(get_limit("unpacked_bytes"), 2**31 - 1))


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a `ValueError` of one line that names the file and the reason.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.io import name_file_in_errors
    >>> try:
    ...     with name_file_in_errors(Path("sites.csv")):
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
        # Parser errors can have several lines, and headings may contain control characters.
        reason = " ".join(str(error).removeprefix(f"{path}: ").split())
        raise ValueError(f"{path}: {clean(reason)}") from None


def check_regular(path: Path) -> None:
    """Raise an `OSError` or a `ValueError` for a folder, a device, a pipe or an empty file."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("not a regular file, but a device or a pipe")
    if (
        status.st_size == 0
    ):  # true also for system files such as those in /proc, which may be endless
        raise ValueError("the file is empty")


# --- writing --------------------------------------------------------------------------------------


def replace_file(
    path: Path,
    write: Callable[[Path], object],
    *,
    durable: bool = False,
    replaces: Callable[[Path], bool] | None = None,
) -> None:
    """Let `write` write a draft, and rename the draft to `path`, so that no partial file is left.

    Parameters
    ----------
    path : Path
    write : callable
        Called with the path of the draft. It has the same name, which some formats need, in a temporary
        folder beside `path`. Other files that `write` leaves in that folder are removed.
    durable : bool
        Whether to wait until the content is on the disk before the draft is renamed, so that a power
        cut leaves no empty file.
    replaces : callable, optional
        A function that returns whether the file at `path` may be replaced; a folder or a link never is.
        By default, whatever is at `path` is replaced.

    Raises
    ------
    OSError
        If the file cannot be written, or there is one that may not be replaced; it stays as it was.
    """
    if not path.parent.exists():  # an error of the draft would name the draft's folder
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        write(draft)
        if durable:
            _sync(draft)
        if replaces is None or (is_regular_file(path) and replaces(path)):
            draft.replace(path)
        else:
            _link_new(draft, path)
    if durable and hasattr(os, "O_DIRECTORY"):
        _sync(path.parent)  # writes the new name to the disk, too


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file to the disk, wholly or not at all; other users of the computer cannot read it.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier file stays as it was.
    """

    def write(draft: Path) -> None:
        draft.touch(mode=0o600)
        draft.write_bytes(data)

    replace_file(path, write, durable=True)


def is_regular_file(path: Path) -> bool:
    """Return whether there is a regular file at a path, not a folder, a link or a device."""
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def _link_new(draft: Path, path: Path) -> None:
    """Move a draft to a path at which nothing exists; otherwise raise a `FileExistsError`."""
    try:
        os.link(draft, path)
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists already: give another path") from None
        draft.rename(path)  # for disks without hard links


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- plain values for JSON ------------------------------------------------------------------------


def to_plain(value: Any, not_finite: Callable[[float], str | None]) -> Any:
    """Return a value for JSON, in which dates are texts and `not_finite` replaces NaN and infinity."""
    if hasattr(value, "tolist"):
        return to_plain(value.tolist(), not_finite)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, not_finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, not_finite) for item in value]
    return value


def replace_nan(value: Any) -> Any:
    """Return a value for JSON, with null for NaN and infinity."""
    return to_plain(value, lambda _: None)
