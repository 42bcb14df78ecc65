"""Print what is in effect: in this interpreter, in a child that multiprocessing spawns, and in a start with -I."""

import json
import multiprocessing
import os
import subprocess
import sys

ENVIRONMENT = "{n: v for n, v in os.environ.items() if n.startswith('NCCL_')}"

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    code = f"import os; conn.send({ENVIRONMENT}); conn.close()"
    child = context.Process(target=exec, args=(code, {"conn": sender}))
    child.start()
    sender.close()
    spawned = receiver.recv()
    child.join()
    clean = {n: v for n, v in os.environ.items() if not n.startswith("NCCL_")}
    isolated = [sys.executable, "-I", "-B", "-c", f"import json, os; print(json.dumps({ENVIRONMENT}))"]
    answer = {
        "file": sys.modules["sitecustomize"].__file__,
        "interpreter": {n: v for n, v in os.environ.items() if n.startswith("NCCL_")},
        "spawn": spawned,
        "isolated": json.loads(subprocess.run(isolated, env=clean, check=True, capture_output=True).stdout),
    }
    print(json.dumps(answer))
