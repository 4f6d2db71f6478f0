"""One peer in its own environment: a line of JSON in, a line out. Started by `benchmarks.peers`.

{"make": name, "bounds": ..., "horizon": ..., "seed": ...}  ->  {"ok": version}
{"ask": t}                                                   ->  {"x": [...], "worked"}
{"tell": [x, y, t]}                                          ->  the same without x
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    # What packages print must not be taken for answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = None
    for line in sys.stdin:
        order = json.loads(line)
        worked = time.process_time()
        try:
            if "make" in order:
                from adapters import PEERS

                kind = PEERS[order["make"]]
                peer = kind(order["bounds"], order["horizon"], order["seed"])
                answer = {"ok": importlib.metadata.version(kind.package)}
            elif "ask" in order:
                answer = {"x": [float(value) for value in peer.ask(order["ask"])]}
            else:
                x, y, t = order["tell"]
                peer.tell(x, y, t)
                answer = {}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        answer["worked"] = time.process_time() - worked
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
