"""The same flags, variables and script under torchrun and under launch: workers find the same, and the exit code agrees.

usage: torchrun_contract_test.py LAUNCH   (run by the Python that has torch)
Where launch differs on purpose, the row says so.
"""
import dataclasses
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import unittest

PROBE = str(pathlib.Path(__file__).with_name("torchrun_probe.py"))

# What torchrun promises, and both are to agree on.
CONTRACT = [
    "LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "PROBE_DIRECTORY"
]
# Of torchrun's variables these are for its own agent.
TORCHRUNS_OWN = {"TORCHELASTIC_SIGNALS_TO_HANDLE"}


@dataclasses.dataclass
class Row:
    flags: list
    program: list = None  # the probe
    environment: dict = dataclasses.field(default_factory=dict)
    also: list = dataclasses.field(default_factory=list)  # further variables to agree on
    without: list = dataclasses.field(default_factory=list)  # launch differs here on purpose
    code: int = 0  # launch's; torchrun says 1 of every failure
    ranks: int = 1


def words(text):
    return text.split()


# Where torchrun names the machine by its host name, the store of launch listens on this machine alone.
LOOPBACK = ["MASTER_ADDR"]
RUN_ID, PORT, MOST = "TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_MAX_RESTARTS"

SAME = {
    "nothing": Row([]),
    "workers": Row(words("--nproc-per-node 2"), ranks=2),
    "underscores and =": Row(words("--nproc_per_node=2"), ranks=2),
    "abbreviated": Row(words("--standa --max-r 2"), also=[MOST], without=LOOPBACK),
    "workers by variable": Row([], environment={"PET_NPROC_PER_NODE": "2"}, ranks=2),
    "a flag wins over its variable": Row(words("--nproc-per-node 2"), environment={"PET_NPROC_PER_NODE": "3"}, ranks=2),
    "workers by the number of cores": Row(words("--nproc-per-node cpu"), ranks=os.cpu_count()),
    "standalone": Row(words("--standalone --nproc-per-node=2"), ranks=2, without=LOOPBACK),
    "standalone by variable": Row([], environment={"PET_STANDALONE": "1"}, without=LOOPBACK),
    "standalone, switched off": Row([], environment={"PET_STANDALONE": "0"}),
    "standalone wins over an endpoint": Row(words("--standalone --rdzv-backend c10d --rdzv-endpoint no.such.host:29400"),
                                            without=LOOPBACK),
    "standalone wins over an address": Row(words("--standalone --master-addr no.such.host --node-rank 1"), without=LOOPBACK),
    "nodes": Row(words("--nnodes 1")),
    "nodes as a range": Row(words("--nnodes=1:1")),
    "nodes by variable": Row([], environment={"PET_NNODES": "1"}),
    "rank of the node": Row(words("--nnodes 1 --node-rank 0")),
    "Kubeflow's variables": Row([], environment={"PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "0",
                                                 "PET_MASTER_ADDR": "127.0.0.1"}, also=[PORT], ranks=2),
    "run id": Row(words("--rdzv-id my-run_7.2"), also=[RUN_ID]),
    "run id that names no file": Row(["--rdzv-id", "my run:7"], also=[RUN_ID]),
    "run id none": Row(words("--rdzv_id none"), also=[RUN_ID]),
    "run id by variable": Row([], environment={"PET_RDZV_ID": "abc"}, also=[RUN_ID]),
    "static backend": Row(words("--rdzv-backend static"), also=[PORT]),
    "c10d backend": Row(words("--rdzv-backend=c10d --rdzv-endpoint=localhost:0"), without=LOOPBACK),
    "endpoint of the static backend": Row(words("--rdzv-endpoint 127.0.0.1:{port}"), also=[PORT]),
    "rendezvous configuration": Row(words("--rdzv-conf timeout=60,join_timeout=30")),
    "master port": Row(words("--master-addr 127.0.0.1 --master-port {port}"), also=[PORT]),
    "master port, underscores": Row(words("--master_port={port}"), also=[PORT]),
    "master port by variable": Row([], also=[PORT]),
    "local address": Row(words("--local-addr 127.0.0.1")),
    "no restarts": Row(words("--max-restarts 0"), also=[MOST]),
    "a restart": Row(words("--max-restarts=1 --nproc-per-node 2"), environment={"PROBE_FAILURES": "1"}, also=[MOST], ranks=2),
    "restarts by variable": Row([], environment={"PET_MAX_RESTARTS": "1", "PROBE_FAILURES": "1"}, also=[MOST]),
    "failure": Row(words("--max-restarts 0"), environment={"PROBE_FAILURES": "1"}, code=1),
    "failure with a code": Row(words("--max-restarts 0"), environment={"PROBE_FAILURES": "1", "PROBE_EXIT": "7"}, code=7),
    "monitor interval": Row(words("--monitor-interval 0.05")),
    "start method": Row(words("--start-method fork")),
    "start method by variable": Row([], environment={"PET_START_METHOD": "forkserver"}),
    "event log handler": Row(words("--event-log-handler console")),
    "role": Row(words("--role trainer")),
    "role by variable": Row([], environment={"PET_ROLE": "trainer"}),
    "module": Row(["-m"], ["torchrun_probe", "-m", "x"], {"PYTHONPATH": os.path.dirname(PROBE)}),
    "module, long": Row(["--module"], ["torchrun_probe"], {"PYTHONPATH": os.path.dirname(PROBE)}),
    "module by variable": Row([], ["torchrun_probe"], {"PYTHONPATH": os.path.dirname(PROBE), "PET_MODULE": "1"}),
    "no Python": Row(["--no-python"], [sys.executable, PROBE, "a"]),
    "no Python, underscore": Row(["--no_python"], [sys.executable, PROBE]),
    "no Python by variable": Row([], [sys.executable, PROBE], {"PET_NO_PYTHON": "1"}),
    "run path": Row(["--run-path"], [PROBE, "a", "--b", "c d"]),
    "run path wins over no Python": Row(["--run-path", "--no-python"]),
    "log directory": Row(words("--log-dir {directory}/logs")),
    "redirects": Row(words("--log-dir {directory}/logs -r 3")),
    "redirects by local rank": Row(words("--log-dir {directory}/logs --redirects 0:1,1:2 --nproc-per-node 2"), ranks=2),
    "redirects by variable": Row([], environment={"PET_REDIRECTS": "3"}),
    "tee, glued": Row(["-t3"]),
    "tee by local rank": Row(words("--tee=0:3,1:1 --nproc-per-node=2"), ranks=2),
    "local ranks filter": Row(words("--local-ranks-filter 0 --nproc-per-node 2"), ranks=2),
    "duplicated lines": Row(words("--duplicate-stdout-filters probe,x --duplicate-stderr-filters y")),
    "default logs": Row(words("--logs-specs default")),
    "signals": Row(words("--signals-to-handle SIGTERM,SIGUSR1")),
    "virtual local ranks": Row(words("--virtual-local-rank --nproc-per-node 2"), ranks=2),
    "virtual local ranks of a list": Row(words("--virtual-local-rank --nproc-per-node 2"), ranks=2,
                                         environment={"CUDA_VISIBLE_DEVICES": "5, 3,1"}),
    "virtual local ranks by variable": Row([], environment={"PET_VIRTUAL_LOCAL_RANK": "1"}),
    "the program's own flags": Row([], [PROBE, "--nproc-per-node", "7", "-m", "--", "x"]),
    "odd arguments": Row([], [PROBE, "", "a b", "$HOME", "*", "\u00e4", "'"]),
    "local rank in the arguments": Row(words("--nproc-per-node 2"), [PROBE, "--number=${local_rank}", "${local_rank}${local_rank}"],
                                       ranks=2),
    "threads that the user chose": Row(words("--nproc-per-node 2"), environment={"OMP_NUM_THREADS": "3"}, ranks=2),
    "GPUs that the user chose": Row([], environment={"CUDA_VISIBLE_DEVICES": "1"}),
    "error handling that the user chose": Row([], environment={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}),
    "two dashes": Row(["--"]),
}

# Neither starts a worker; launch says 2, and why in one line that names the first of these words.
REFUSED = {
    "an unknown flag": Row(["--unknown"]),
    "an unknown letter": Row(["-x"]),
    "a value that is missing": Row(["--nnodes"], []),
    "no program": Row([], []),
    "an ambiguous abbreviation": Row(["--rdzv", "x"]),
    "zero nodes": Row(["--nnodes", "0"]),
    "nodes that are no range": Row(["--nnodes", "1:2:3"]),
    "nodes in words": Row(["--nnodes", "two"]),
    "a range with its smallest last": Row(["--nnodes", "2:1"]),
    "workers in words": Row(["--nproc-per-node", "many"]),
    "GPUs where there are none": Row(["--nproc-per-node", "gpu"], environment={"CUDA_VISIBLE_DEVICES": ""}),
    "negative restarts": Row(["--max-restarts", "-1"]),
    "restarts in words": Row(["--max-restarts", "some"]),
    "restarts in words by variable": Row([], environment={"PET_MAX_RESTARTS": "some"}),
    "an unknown backend": Row(["--rdzv-backend", "zeus"]),
    "an unknown backend by variable": Row([], environment={"PET_RDZV_BACKEND": "zeus"}),
    "an unknown start method": Row(["--start-method", "thread"]),
    "unknown logs": Row(["--logs-specs", "mine"]),
    "a rendezvous configuration without values": Row(["--rdzv-conf", "timeout"]),
    "an interval in words": Row(["--monitor-interval", "often"]),
    "a port in words": Row(["--master-port", "http"]),
    "a port that is taken": Row(["--master-port", "{taken}"]),
    "streams that do not exist": Row(["--redirects", "7"]),
    "streams of no rank": Row(["--tee", "x:1"]),
    "local ranks in words": Row(["--local-ranks-filter", "x"]),
    "a module without Python": Row(["--module", "--no-python"]),
    "a module without Python, by variable": Row(["--no-python"], environment={"PET_MODULE": "1"}),
    "virtual local ranks without GPUs": Row(["--virtual-local-rank", "--nproc-per-node", "2"],
                                            environment={"CUDA_VISIBLE_DEVICES": "5"}),
}


def free_port():
    """None of those that the kernel gives away: another test would get it before its rank 0 has bound it."""
    first_given = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", random.randrange(first_given // 2, first_given)))
                return sock.getsockname()[1]
            except OSError:
                pass


class TorchrunContract(unittest.TestCase):
    launch = None

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.taken.close)

    def environment_of(self, row, directory, port):
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("MUSTER_", "PET_", "TORCH", "CUDA_", "SLURM_"))}
        return {**inherited, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable, "PROBE_DIRECTORY": str(directory),
                "XDG_STATE_HOME": str(directory / "state"), "PET_MASTER_PORT": str(port), **row.environment}

    def run_under(self, name, start, row, port):
        """Returns the exit code, what is printed, and by file name what the ranks found."""
        directory = self.path / name
        directory.mkdir()
        program = [PROBE, "a", "--b"] if row.program is None else row.program
        values = {"port": port, "taken": self.taken.getsockname()[1], "directory": directory}
        flags = [word.format(**values) for word in row.flags]
        code, text = start([*flags, *program], self.environment_of(row, directory, port), directory)
        found = {path.name: json.loads(path.read_text()) for path in sorted(directory.glob("rank_*.json"))}
        return code, text, found

    @staticmethod
    def start_launch(arguments, environment, directory):
        result = subprocess.run([TorchrunContract.launch, *arguments], env=environment, cwd=directory, capture_output=True,
                                text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    @staticmethod
    def start_torchrun(arguments, environment, directory):
        """torchrun's main() in a child of this process, which has torch loaded: 1.2 s less a start."""
        output = directory / "output"
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with open(output, "w") as file:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                os.environ.clear()
                os.environ.update(environment)
                os.chdir(directory)
                from torch.distributed.run import main
                main(arguments)
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException as error:  # as the interpreter would
                os.write(2, repr(error).encode())
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.read_text()

    def both(self, row):
        theirs = self.run_under("torchrun", self.start_torchrun, row, free_port())
        ours = self.run_under("launch", self.start_launch, row, free_port())
        return theirs, ours

    def compare(self, row, theirs, ours):
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, expected in theirs.items():
            found = ours[name]
            for key in ("argv", "script", "name"):
                self.assertEqual(found[key], expected[key], name)
            self.assertEqual(os.path.basename(found["directory"]), "launch")
            missing = set(expected["environment"]) - set(found["environment"]) - TORCHRUNS_OWN
            self.assertEqual(missing, set(), name)
            *before, module = found["environment"].pop("PYTHONPATH").split(":")
            self.assertEqual(os.path.basename(module), "python.zip", name)  # ours, behind the user's
            if before:
                found["environment"]["PYTHONPATH"] = ":".join(before)
            for variable in CONTRACT + row.also:
                if variable in row.without or variable in (PORT, "PROBE_DIRECTORY"):
                    continue
                self.assertEqual(found["environment"].get(variable), expected["environment"].get(variable),
                                 f"{variable} in {name}")

    def test_workers_find_what_they_find_under_torchrun(self):
        for name, row in SAME.items():
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.path) as directory:
                self.path = pathlib.Path(directory)
                try:
                    (their_code, their_text, theirs), (our_code, our_text, ours) = self.both(row)
                    self.assertEqual(their_code, 1 if row.code else 0, their_text)
                    self.assertEqual(our_code, row.code, our_text)
                    self.assertEqual(len({found["environment"]["RANK"] for found in theirs.values()}), row.ranks)
                    self.compare(row, theirs, ours)
                finally:
                    self.path = self.path.parent

    def test_the_port_that_is_asked_for_is_the_one_that_workers_find(self):
        for name, row in SAME.items():
            if PORT not in row.also:
                continue
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.path) as directory:
                self.path = pathlib.Path(directory)
                try:
                    for which, start in (("torchrun", self.start_torchrun), ("launch", self.start_launch)):
                        port = free_port()
                        _, text, found = self.run_under(which, start, row, port)
                        self.assertTrue(found, text)
                        for each in found.values():
                            self.assertEqual(each["environment"][PORT], str(port), which)
                finally:
                    self.path = self.path.parent

    def test_what_torchrun_refuses_is_refused_with_2_in_one_line(self):
        for name, row in REFUSED.items():
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.path) as directory:
                self.path = pathlib.Path(directory)
                try:
                    (their_code, _, theirs), (our_code, our_text, ours) = self.both(row)
                    self.assertNotEqual(their_code, 0)
                    self.assertEqual(our_code, 2, our_text)
                    self.assertEqual((theirs, ours), ({}, {}))
                    self.assertEqual(our_text.count("\n"), 1, our_text)
                    self.assertFalse((self.path / "launch" / "state").exists(), "nothing is made")
                    named = row.flags[0] if row.flags else next(iter(row.environment), "program")
                    self.assertIn(named, our_text)
                finally:
                    self.path = self.path.parent

    def test_lines_begin_as_torchruns_variable_says(self):
        row = Row(words("--tee 3 --nproc-per-node 2 --role trainer"),
                  environment={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${role_name} ${local_rank} ${rank} $other] "})
        (_, their_text, _), (_, our_text, _) = self.both(row)
        lines = [sorted(line for line in text.splitlines() if "probe of" in line) for text in (their_text, our_text)]
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(lines[1][1], "[trainer 1 1 $other] probe of rank 1")


if __name__ == "__main__":
    import torch.distributed.run  # before the first fork
    TorchrunContract.launch = os.path.abspath(sys.argv.pop(1))
    unittest.main()
