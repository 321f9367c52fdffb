// A Python program whose ranks report commits, for jobs that grow.
#pragma once

namespace muster {

// Reports commits until three ranks take part.
inline constexpr const char* kCommitsUntilThree = R"(
import json, os, socket, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ["MUSTER_SOCKET"])
print("attempt", os.environ["MUSTER_ATTEMPT"], "rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"],
      "on", os.uname().nodename, flush=True)
step = 0
while os.environ["WORLD_SIZE"] != "3":
    step += 1
    agent.send(json.dumps({"v": 1, "type": "committed", "rank": int(os.environ["RANK"]), "pid": os.getpid(), "step": step,
                           "attempt": int(os.environ["MUSTER_ATTEMPT"])}).encode())
    time.sleep(0.1)
)";

}  // namespace muster
