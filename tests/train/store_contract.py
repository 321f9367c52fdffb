"""The contract of the c10d store: the wheel's own Python client sees no difference between our server and torch's.

usage: store_contract.py STORE_SERVER

Each scenario runs against `STORE_SERVER` and against torch's TCPStore server, and must return the same values, or the same kind and first line
of an error. The script skips and names methods that this torch lacks; a method that it has and that no scenario calls is a failure. Exits with
0 if all are the same.
"""
import datetime
import hashlib
import io
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import PrefixStore, TCPStore

# The scenarios call CALLED; the client answers OF_THE_CLIENT without asking its server.
CALLED = {"add", "append", "barrier", "check", "clone", "compare_set", "delete_key", "get", "has_extended_api", "list_keys", "multi_get", "multi_set",
          "num_keys", "queue_len", "queue_pop", "queue_push", "set", "set_timeout", "wait"}
OF_THE_CLIENT = {"host", "libuvBackend", "port", "timeout"}

SHORT = datetime.timedelta(milliseconds=200)
LONG = datetime.timedelta(seconds=30)


class Server:
    """One store, ours or torch's, and clients of it."""

    def __init__(self, program):
        if program:
            self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.port = int(self.process.stdout.readline().split()[0])
        else:
            self.torch = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            self.port = self.torch.port

    def client(self, timeout=LONG, **options):
        client = TCPStore("127.0.0.1", self.port, is_master=False, timeout=LONG, **{"wait_for_workers": False, **options})
        client.set_timeout(timeout)  # for its requests, not for connecting
        return client

    def close(self):
        if hasattr(self, "process"):
            self.process.stdin.close()
            assert self.process.wait(10) == 0


def outcome(function, *arguments):
    """The value, or what an except clause could see of the error, without torch's source position and the port, which differ from run to run."""
    try:
        return function(*arguments)
    except Exception as error:  # any error: the test compares two servers
        first = str(error).split("\n")[0].split(" Exception raised")[0]
        return type(error).__name__, first[:40] if "127.0.0.1" in first else first


def in_threads(count, function):
    results = [None] * count

    def run(index):
        results[index] = outcome(function, index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a client hangs"
    return results


def listed(client):
    return sorted(client.list_keys()) if hasattr(client, "list_keys") else None


def values(server):
    client = server.client()
    client.set("text", "value")
    client.set("empty", "")
    client.set("bytes", bytes(range(256)).decode("latin-1"))
    client.set("large", "x" * (1 << 20))
    client.set("text", "second")
    return [client.get(key) for key in ("text", "empty", "bytes", "large")]


def counters(server):
    client = server.client()
    seen = [client.add("n", 5), client.add("n", -7), client.get("n"), client.add("big", 2**62), client.add("big", 2**62)]
    client.set("n", "41")
    client.set("suffixed", " 12abc")
    return seen + [client.add("n", 1), client.add("suffixed", 1)]


def add_to_text(server):
    client, other = server.client(), server.client()
    client.set("text", "abc")
    try:
        client.add("text", 1)
        failed = False
    except dist.DistNetworkError:
        failed = True
    return [failed, other.get("text")]


def appended(server):
    client = server.client()
    client.append("log", "a")
    client.append("log", "bc")
    client.set("log2", "x")
    client.append("log2", "y")
    return [client.get("log"), client.get("log2")]


def checks(server):
    client = server.client()
    client.set("a", "1")
    client.queue_push("q", "1")
    return [client.check(keys) for keys in (["a"], ["b"], ["a", "b"], ["a", "q"], ["q"], [])]


def compare_sets(server):
    client = server.client()
    return [client.compare_set("k", "expected", "desired"), client.check(["k"]), client.compare_set("k", "", "first"),
            client.compare_set("k", "wrong", "x"), client.compare_set("k", "first", "second"), client.get("k"),
            client.compare_set("k", "", "third")]


def deletions(server):
    client = server.client()
    client.set("a", "1")
    client.queue_push("q", "1")
    return [client.delete_key("a"), client.delete_key("a"), client.delete_key("q"), client.queue_len("q"), client.check(["a"]),
            client.num_keys()]


def key_lists(server):
    client = server.client()
    none = listed(client)
    client.set("a", "1")
    client.add("b", 1)
    client.queue_push("q", "1")
    PrefixStore("p", client).set("c", "1")
    return [none, listed(client), client.num_keys()]


def many_keys(server):
    client = server.client()
    keys = [f"key{index}" for index in range(3000)]
    client.multi_set(keys, [key * 7 for key in keys])
    client.wait(keys)
    seen = client.multi_get(keys)
    return [hashlib.sha256(b"".join(seen)).hexdigest(), client.check(keys), client.num_keys(), listed(client) in (None, sorted(keys))]


def queues(server):
    client = server.client(timeout=SHORT)
    seen = [client.queue_len("q"), outcome(client.queue_pop, "q", False), outcome(client.queue_pop, "q")]
    for item in ("a", "b", "c"):
        client.queue_push("q", item)
    return seen + [client.queue_len("q"), client.queue_pop("q"), client.queue_pop("q", False), client.queue_len("q"), client.queue_pop("q"),
                   client.queue_len("q"), client.num_keys()]


def queue_of_many_consumers(server):
    consumers = [server.client() for _ in range(8)]
    producer = server.client()

    def run(index):
        if index < 8:
            return consumers[index].queue_pop("q")
        for item in range(8):
            producer.queue_push("q", f"item{item}")
        return b""

    return sorted(in_threads(9, run))


def timeouts(server):
    client = server.client(timeout=SHORT)
    seen = [outcome(client.get, "none"), outcome(client.wait, ["a", "b"], SHORT), outcome(client.multi_get, ["none"])]
    client.set("a", "1")
    return seen + [outcome(client.wait, ["a", "b"], SHORT), client.get("a"), client.num_keys()]


def gets_that_wait(server):
    waiting, setting = server.client(), server.client()
    return in_threads(2, lambda index: waiting.get("later") if index == 0 else setting.set("later", "now"))


def waits_for_several(server):
    waiting = [server.client() for _ in range(4)]
    setting = server.client()

    def run(index):
        if index < 4:
            waiting[index].wait(["a", "b", "a", "c", "d"])
            return waiting[index].multi_get(["a", "b", "c", "d"])
        setting.set("c", "3")
        setting.add("b", 2)
        setting.append("a", "1")
        return setting.compare_set("d", "", "4")

    return in_threads(5, run)


def prefixes(server):
    one, other = PrefixStore("one", server.client()), PrefixStore("two", PrefixStore("one", server.client()))
    one.set("k", "1")
    other.set("k", "2")
    return [one.get("k"), other.get("k"), one.add("n", 1), other.add("n", 10), one.check(["two/k"]), server.client().get("one/k")]


def barriers(server):
    clients = [server.client() for _ in range(32)]

    def run(index):
        for turn in range(5):
            if clients[index].add(f"arrived{turn}", 1) == len(clients):
                clients[index].set(f"go{turn}", "1")
            clients[index].wait([f"go{turn}"])
        return clients[index].get("arrived4")

    return in_threads(32, run)


def barriers_of_the_store(server):
    """Store.barrier(): with keys that are used again or that others set, with too few clients, with a client that leaves."""
    if not hasattr(TCPStore, "barrier"):
        return "left out"
    clients = [server.client() for _ in range(16)]

    def run(index):
        for turn in range(5):
            clients[index].barrier(f"turn{turn}", len(clients))
        PrefixStore("p", clients[index]).barrier("turn0", len(clients))
        return clients[index].get("turn4")

    seen = in_threads(16, run)
    one, other = server.client(timeout=SHORT), server.client()
    seen += [outcome(one.barrier, "turn0", 16), other.get("turn0"), outcome(one.barrier, "alone", 2), outcome(one.barrier, "alone", 3, SHORT),
             outcome(one.barrier, "none", 0), other.get("alone"), other.barrier("alone", 3), listed(other), other.num_keys()]
    waiting = server.client()
    seen += in_threads(2, lambda index: waiting.barrier("set", 2) if index == 0 else (wait_for(other, "set"), other.set("set", "text")))
    return seen + [outcome(one.barrier, "set", 2)[0], other.get("set")]


def wait_for(client, key):
    while not client.check([key]):  # wait() would be a client that the barrier counts
        time.sleep(0.01)


def clones(server):
    client = server.client()
    prefixed = PrefixStore("p", client)
    client.clone().set("k", "1")
    prefixed.clone().set("k", "2")
    return [client.get("k"), client.get("p/k"), client.has_extended_api(), prefixed.has_extended_api(), client.clone().num_keys()]


def prefixed_commands(server):
    client = server.client(timeout=SHORT)
    store = PrefixStore("p", client)
    store.multi_set(["a", "b"], ["1", "2"])
    store.append("a", "3")
    store.queue_push("q", "item")
    return [store.multi_get(["a", "b"]), store.queue_len("q"), client.queue_len("p/q"), store.queue_pop("q"), outcome(store.queue_pop, "q", False),
            store.compare_set("b", "2", "4"), store.check(["b"]), store.delete_key("b"), store.check(["b"]), store.num_keys(),
            outcome(lambda: listed(store)), outcome(store.wait, ["b"], SHORT)]


def workers(server):
    """TCPStore(world_size=N, wait_for_workers=True): each client counts itself under init/."""
    in_threads(4, lambda index: server.client(world_size=4, wait_for_workers=True) and None)
    return [server.client().num_keys(), listed(server.client())]


def too_long_key(server):
    client, other = server.client(), server.client()
    client.set("k" * 8191, "1")
    fits = other.get("k" * 8191)
    try:
        client.set("k" * 8192, "1")
        client.get("k")
        dropped = False
    except dist.DistNetworkError:
        dropped = True
    return [fits, dropped, other.num_keys()]


def train(rank, port, sender):
    dist.init_process_group("gloo", store=TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False), rank=rank, world_size=2)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().sum().backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        data = io.BytesIO()
        for parameter in model.parameters():
            data.write(parameter.detach().numpy().tobytes())
        sender.send(hashlib.sha256(data.getvalue()).hexdigest())
    dist.destroy_process_group()


def data_parallel(server):
    receiver, sender = torch.multiprocessing.get_context("spawn").Pipe(False)
    torch.multiprocessing.spawn(train, args=(server.port, sender), nprocs=2)
    assert receiver.poll(1), "rank 0 reported nothing"
    return receiver.recv()


SCENARIOS = [values, counters, add_to_text, appended, checks, compare_sets, deletions, key_lists, many_keys, queues, queue_of_many_consumers,
             timeouts, gets_that_wait, waits_for_several, prefixes, prefixed_commands, clones, barriers,
             barriers_of_the_store, workers, too_long_key, data_parallel]


def main():
    different = 0
    methods = {name for name in dir(TCPStore) if not name.startswith("_")}
    print(f"torch {torch.__version__}; not in it, and left out: {', '.join(sorted(CALLED - methods)) or 'nothing'}")
    if unknown := methods - CALLED - OF_THE_CLIENT:
        print(f"no scenario calls {', '.join(sorted(unknown))}")
        different += 1
    for scenario in SCENARIOS:
        seen, seconds = [], []
        for program in (sys.argv[1], None):
            server = Server(program)
            start = time.monotonic()
            seen.append(scenario(server))
            seconds.append(time.monotonic() - start)
            server.close()
        equal = seen[0] == seen[1]
        print(f"{'same     ' if equal else 'DIFFERENT'} {scenario.__name__} ({seconds[0]:.2f} s, torch {seconds[1]:.2f} s): {str(seen[0])[:120]}", flush=True)
        if not equal:
            different += 1
            print(f"  torch's server: {str(seen[1])[:2000]}\n  ours:           {str(seen[0])[:2000]}", flush=True)
    print(f"{different} differences in {len(SCENARIOS)} scenarios")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
