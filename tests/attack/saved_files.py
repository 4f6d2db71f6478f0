"""Saved files that are damaged or made to do harm: each must be refused by name, and no code may run.

A file of `Bandit.save` is cut, has bytes changed, or is made anew with something else inside: pickles,
arrays of objects, packed or encrypted or doubled members, names that lead elsewhere, sizes that lie,
values that nest without end or name what is not the package's. `load` must raise `SavedFileError`,
within a second and without importing anything, and leave no trace on the disk.
"""

import hashlib
import io
import json
import pickle
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tests.attack.bad_values import cut_off, flipped, overwritten
from tests.attack.report import SILENT, WRONG, Count, Found, Trial, in_the_loop, one_of
from tvbandits import Candidates, SavedFileError, load, policies
from tvbandits.io import CLASSES, VERSION

# Seconds after which a refusal counts as one that never came.
SLOW = 5.0

# What code would leave behind that a file has made run.
TRACE = Path(tempfile.gettempdir()) / "tvbandits-attack-trace"


class Harm:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return TRACE.touch, ()


def good() -> bytes:
    """A file as it should be."""
    for module in CLASSES:  # all that a file may need
        import_module(module)
    bandit = policies.adaptive_gp_ucb(
        Candidates(np.arange(12.0)[:, None]), kernel=RBF(2.0), noise_variance=0.01
    )
    for t in range(1, 6):
        X = bandit.ask(float(t))
        bandit.tell(X, np.sin(X[:, 0]), float(t))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        bandit.save(path)
        return path.read_bytes()


def members(data: bytes) -> dict[str, bytes]:
    """What is inside."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(inside: dict[str, bytes], packed: int = zipfile.ZIP_STORED, twice: str = "") -> bytes:
    """A file with other members and the checksum that belongs to them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packed) as archive:
        for name, content in inside.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=packed)
        if twice:
            archive.writestr(zipfile.ZipInfo("arrays/0.npX"), inside[twice])
        archive.comment = b"0" * 64
    return signed(buffer.getvalue().replace(b"arrays/0.npX", b"arrays/0.npy"))


def signed(data: bytes) -> bytes:
    """With the checksum of what it holds."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def with_structure(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """With another structure."""
    inside = members(data)
    structure = json.loads(inside["structure.json"])
    change(structure)
    return sealed({**inside, "structure.json": json.dumps(structure).encode()})


def with_value(data: bytes, value: Any) -> bytes:
    """With another value in it."""
    return with_structure(data, lambda structure: structure.update(value=value))


def bombs(data: bytes) -> dict[str, bytes]:
    """Small files of what is large or deep once it is read."""

    def nested(inside: Any, around: Callable[[Any], Any], count: int) -> bytes:
        for _ in range(count):
            inside = around(inside)
        return with_value(data, inside)

    def twice(kernel: Any) -> Any:
        return {"class": "Sum", "fields": {"k1": kernel, "k2": kernel}}

    white = {"class": "WhiteKernel", "fields": {"noise_level": 1.0}}
    array = {"array": 0, "writeable": False}
    return {
        "kernel of doublings": nested(white, twice, 12),
        "kernel of a long chain": nested(
            white, lambda k: {"class": "Sum", "fields": {"k1": k, "k2": white}}, 300
        ),
        "chain": nested({"tuple": []}, lambda inside: {"tuple": [inside]}, 300),
        "one array many times": with_value(
            data, {"class": "Box", "fields": {"bounds": {"list": [array] * 200_000}}}
        ),
    }


def with_array(data: bytes, content: bytes) -> bytes:
    """With another first array."""
    return sealed({**members(data), "arrays/0.npy": content})


def npy(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """An npy file with a header of one's own."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + body


def objects() -> bytes:
    """An npy file of objects, which is a pickle."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([Harm()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def cases(data: bytes) -> dict[str, bytes]:
    """Files that are made to do harm, by what is wrong with them."""
    inside, harm = members(data), pickle.dumps(Harm())
    shape = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }"
    values: dict[str, Any] = {
        "entry of code": {"own": "os:system"},
        "class outside": {"class": "os:system", "fields": {}},
        "class by its module": {"class": "tvbandits.domains.box:Box", "fields": {"bounds": "x"}},
        "class that reaches out": {"class": "MQTTTransport", "fields": {}},
        "class that is imported there": {"class": "Path", "fields": {}},
        "class of a private name": {"class": "__builtins__", "fields": {}},
        "class that is a list": {"class": ["Box"], "fields": {}},
        "kernel that is none": {"class": "Kernel", "fields": {}},
        "kernel with wrong parts": {"class": "RBF", "fields": {"command": "ls"}},
        "generator that is none": {"generator": {"dict": [["bit_generator", "Popen"]]}},
        "kernel without parts": {"class": "OnSpace", "fields": {}},
        "fields that are none": {"class": "Box", "fields": [1]},
        "array that is not there": {"array": 10**6, "writeable": True},
        "array below zero": {"array": -1, "writeable": True},
        "unknown kind": {"pickle": "gASVAAAA"},
        "no value": {},
        "plain value": 7,
        "key that cannot be one": {"dict": [[{"tuple": []}, 1]]},
        "no bandit": {"tuple": [1, 2]},
        "number of many digits": {"tuple": [10**4000]},
        "number beyond all": {"float": "1e999"},
        "set": {"set": [1, 2]},
        "keys of one hash": {"dict": [[k * (2**61 - 1), 0] for k in range(1, 50_000)]},
        "number that is true": {"class": "Window", "fields": {"last": True, "within": None}},
    }
    arrays = {
        "array of objects": objects(),
        "pickle for an array": harm,
        "array of a huge shape": npy(shape % "(1000000000000000000,)"),
        "array of a negative shape": npy(shape % "(-5,)"),
        "array of many dimensions": npy(shape % ("(" + "1," * 99 + ")"), b"\0" * 8),
        "array of records": npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}"),
        "header of code": npy("__import__('os').system('touch harm')"),
        "header too long": npy("#" * 60_000),
        "header too deep": npy("(" * 5_000),
        "npy of another version": npy(shape % "()", b"\0" * 8, b"\x03\x00"),
        "array cut short": inside["arrays/0.npy"][:-8],
        "array with more": inside["arrays/0.npy"] + b"\0" * 8,
    }
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("structure.json", b"0" * 50_000_000)
        archive.comment = b"0" * 64
    deep = {**inside, "structure.json": b"[" * 200_000 + b"]" * 200_000}
    return {
        **{name: with_value(data, value) for name, value in values.items()},
        **bombs(data),
        **{name: with_array(data, content) for name, content in arrays.items()},
        "pickle": harm,
        "pickle inside": sealed({**inside, "state.pkl": harm}),
        "name that leads up": sealed({**inside, "../../evil.py": b"harm"}),
        "member there twice": sealed(inside, twice="arrays/0.npy"),
        "packed members": sealed(inside, zipfile.ZIP_DEFLATED),
        "zip bomb": signed(bomb.getvalue()),
        "no structure": sealed({k: v for k, v in inside.items() if k != "structure.json"}),
        "array missing": sealed({k: v for k, v in inside.items() if k != "arrays/0.npy"}),
        "structure too deep": sealed(deep),
        "structure too long": sealed({**inside, "structure.json": b" " * 8_000_001}),
        "structure that is a list": sealed({**inside, "structure.json": b"[]"}),
        "version of tomorrow": with_structure(data, lambda s: s.update(version=VERSION + 1)),
        "other format": with_structure(data, lambda s: s.update(format="other")),
        "without a value": with_structure(data, lambda s: s.pop("value")),
        "empty": b"",
        "SQLite": b"SQLite format 3\x00" + b"\0" * 4080,
        "half a file": data[: len(data) // 2],
        "with more at its end": data + b"\0",
        "another checksum": data[:-64] + b"0" * 64,
    }


def refused(path: Path, data: bytes) -> str:
    """Open one file: it must be refused by name, in time, without code, and leave nothing behind."""
    path.write_bytes(data)
    there, known, began = set(path.parent.iterdir()), set(sys.modules), time.process_time()
    try:
        load(path)
    except SavedFileError as error:
        if "\n" in str(error) or str(path) not in str(error):
            raise Found(
                WRONG, f"the message does not name the file in one line: {error}"
            ) from error
    else:
        raise Found(SILENT, "it was loaded")
    finally:
        harmed = TRACE.exists()
        TRACE.unlink(missing_ok=True)
    if harmed:
        raise Found(WRONG, "code was run")
    if time.process_time() - began > SLOW:
        raise Found(WRONG, f"it took {time.process_time() - began:.1f} s to refuse it")
    strange = {m for m in set(sys.modules) - known if not m.startswith("tvbandits.")}
    if strange or set(path.parent.iterdir()) != there:
        raise Found(WRONG, f"it left something behind: {sorted(strange)}")
    return "refused by name"


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The file, cut or with some bytes changed."""
    changed = one_of((flipped, overwritten, cut_off), rng)(data, rng)
    return changed if changed != data else data[:-1]


@in_the_loop(600, 120)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Open so many files: those that are made, and then some that are damaged at random."""
    rng, data = np.random.default_rng(seed), good()
    with TemporaryDirectory(prefix="attack") as folder:
        path = Path(folder) / "saved"
        path.write_bytes(data)
        load(path)
        made = cases(data)
        for name, content in made.items():
            yield name, partial(refused, path, content)
        for number in range(count - len(made)):
            yield f"damage {number} of seed {seed}", partial(refused, path, damaged(data, rng))
