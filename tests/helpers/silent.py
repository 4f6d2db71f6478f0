"""An expert that never answers, so that people may answer without a query."""

from typing import Any

import numpy as np

from tvbandits import Answers


class SilentExpert:
    """An expert that refuses all queries."""

    def query(self, X: Any, t: float) -> Answers:
        assert np.isfinite(t)
        return Answers.none(len(X))
