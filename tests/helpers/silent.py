"""An expert in a program that never answers: beside it people may answer what nobody has asked."""

from typing import Any

import numpy as np

from tvbandits import Answers


class Silent:
    """An expert without an answer."""

    def query(self, X: Any, t: float) -> Answers:
        assert np.isfinite(t)
        return Answers.none(len(X))
