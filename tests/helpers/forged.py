"""Saved files of valid form with wrong contents: a part is swapped, left out or changed."""

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.attack.saved_files import members, sealed

# Odd values of a field.
ODD = (
    None,
    True,
    -1,
    0,
    3,
    10**18,
    0.5,
    -1.0,
    1e300,
    "odd",
    "",
    {"float": "nan"},
    {"float": "inf"},
)


def forge(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a forged file, given a valid one."""
    inside = members(data)
    structure = json.loads(inside["structure.json"])
    arrays = [name for name in inside if name.startswith("arrays/")]
    if arrays and rng.random() < 0.4:
        name = arrays[rng.integers(len(arrays))]
        if rng.random() < 0.2:
            other = arrays[rng.integers(len(arrays))]
            inside[name], inside[other] = inside[other], inside[name]
            return sealed(inside)
        inside[name] = _other_array(inside[name], rng)
        return sealed(inside)
    _change_a_value(structure["value"], rng)
    return sealed({**inside, "structure.json": json.dumps(structure).encode()})


def _other_array(data: bytes, rng: np.random.Generator) -> bytes:
    array = np.load(io.BytesIO(data))
    numbers = array.dtype.kind in "fiu"
    ways: dict[str, Any] = {
        "single precision": lambda: array.astype(np.float32) if numbers else array.astype("U9"),
        "whole numbers": lambda: np.zeros(array.shape, dtype=np.int32),
        "texts": lambda: array.astype("U9"),
        "one row less": lambda: array[:-1] if array.ndim else array[None],
        "one row more": lambda: np.concatenate([array, array[-1:]]) if array.ndim else array[None],
        "one axis more": lambda: array[None],
        "no axis": lambda: array.reshape(-1)[:1].reshape(()) if array.size else np.zeros(()),
        "nothing": lambda: array[:0] if array.ndim else np.zeros(0),
        "turned": lambda: array.T,
        "NaN": lambda: np.full(array.shape, np.nan),
        "infinite": lambda: np.full(array.shape, np.inf),
        "negative": lambda: -np.abs(array) - 1 if numbers else array,
        "huge": lambda: np.full(array.shape, 1e300),
        "one NaN": lambda: _with_value(array, rng, np.nan),
        "one huge": lambda: _with_value(array, rng, 1e300 if array.dtype.kind == "f" else 10**6),
    }
    name = list(ways)[rng.integers(len(ways))]
    with np.errstate(all="ignore"):
        result = np.asarray(ways[name]())
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, result, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _with_value(array: Any, rng: np.random.Generator, value: float) -> Any:
    result = array.copy() if array.dtype.kind in "fiu" else np.zeros(3)
    if result.size:
        result.reshape(-1)[rng.integers(result.size)] = (
            value if result.dtype.kind == "f" else 10**6 % 251
        )
    return result


def _change_a_value(root: Any, rng: np.random.Generator) -> None:
    """Change a random field of an instance, or item of a list, in the tree of a file."""
    containers = [inside for each in tree_values(root) if (inside := _inside(each))]
    fields = containers[rng.integers(len(containers))]
    keys = list(fields) if isinstance(fields, dict) else range(len(fields))
    key, other = (keys[rng.integers(len(keys))] for _ in range(2))
    way = rng.integers(5)
    if way == 0:
        del fields[key]
    elif way == 1:
        fields[key], fields[other] = fields[other], fields[key]
    elif way == 2:
        values = list(tree_values(root))
        fields[key] = json.loads(json.dumps(values[rng.integers(len(values))]))
    elif way == 3 and isinstance(fields, dict):
        fields[f"{key}_"] = fields.pop(key)
    else:
        fields[key] = ODD[rng.integers(len(ODD))]


def tree_values(root: Any) -> Iterator[dict[str, Any]]:
    """Yield all values of a tree that have a type tag."""
    waiting = [root]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, dict) and tree:
            yield tree
            pairs = tree.get("dict")
            inside = [each for pair in pairs for each in pair] if pairs else _inside(tree)
            waiting += inside.values() if isinstance(inside, dict) else inside


def _inside(tree: dict[str, Any]) -> Any:
    """Return the parts of a value that can be exchanged: its fields or its items."""
    return tree.get("fields") or tree.get("tuple") or tree.get("list") or []
