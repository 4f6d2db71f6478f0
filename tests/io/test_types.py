"""Values of saved files are compared with the types of the fields of parts."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType, TypeVar

from tvbandits.io import matches_type

Scalar = TypeVar("Scalar", bound=np.generic)
# NDArray as numpy 2.5 declares it.
Aliased: Any = TypeAliasType(
    "Aliased", np.ndarray[tuple[Any, ...], np.dtype[Scalar]], type_params=(Scalar,)
)


@pytest.mark.parametrize("array", [NDArray, Aliased])
@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        (np.ones(2), np.float64, True),
        (np.ones(2), Any, True),
        (np.ones(2), np.bool_, False),
        (np.ones(2, dtype=bool), np.bool_, True),
        ([1.0], np.float64, False),
        (None, np.float64, False),
    ],
)
def test_matches_type_compares_arrays_with_an_alias_of_an_array_type(
    array: Any, value: Any, kind: Any, right: bool
) -> None:
    assert matches_type(value, array[kind]) is right
    assert matches_type(value, array[kind] | None) is (right or value is None)


def test_matches_type_resolves_an_alias_without_parameters() -> None:
    number: Any = TypeAliasType("number", float | None)
    assert matches_type(1.0, number)
    assert matches_type(None, number)
    assert not matches_type("1", number)
