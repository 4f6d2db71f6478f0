"""The process of one peer, started by `benchmarks.peers`: it replies to lines of JSON.

{"make": name, "bounds": ..., "horizon": ..., "seed": ...}  ->  {"ok": version}
{"ask": t}                                                   ->  {"x": [...], "seconds"}
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
    # Packages may print, which must not be mixed with replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = None
    for line in sys.stdin:
        order = json.loads(line)
        start = time.process_time()
        try:
            if "make" in order:
                from adapters import PEERS

                kind = PEERS[order["make"]]
                peer = kind(order["bounds"], order["horizon"], order["seed"])
                reply = {"ok": importlib.metadata.version(kind.package)}
            elif "ask" in order:
                reply = {"x": [float(value) for value in peer.ask(order["ask"])]}
            else:
                x, y, t = order["tell"]
                peer.tell(x, y, t)
                reply = {}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        reply["seconds"] = time.process_time() - start
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
