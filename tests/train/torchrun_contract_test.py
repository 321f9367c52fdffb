"""Runs the same flags, variables and script under torchrun and under launch: workers must find the same, and the exit codes must agree.

usage: torchrun_contract_test.py LAUNCH   (run by the Python that has torch, 2.9 or newer)
A row or a table names each difference that is meant. If a newer torchrun has a flag or a variable that no table lists, the test fails and names
it. The test skips and names what an older torchrun lacks.
"""
import dataclasses
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import unittest

PROBE = str(pathlib.Path(__file__).with_name("torchrun_probe.py"))

# Every flag of any torchrun, with a value that it accepts (None: it takes no value). Each is also used in a row below, or refused.
FLAGS = {
    "--nnodes": "1", "--nproc-per-node": "1", "--rdzv-backend": "static", "--rdzv-endpoint": "127.0.0.1:0", "--rdzv-id": "x",
    "--rdzv-conf": "timeout=60", "--standalone": None, "--max-restarts": "0", "--monitor-interval": "0.1", "--start-method": "spawn",
    "--event-log-handler": "null", "--role": "x", "--module": None, "--no-python": None, "--run-path": None, "--log-dir": "logs",
    "--redirects": "0", "--tee": "0", "--local-ranks-filter": "0", "--duplicate-stdout-filters": "x",
    "--duplicate-stderr-filters": "x", "--log-line-prefix-template": "x", "--logs-specs": "default", "--node-rank": "0",
    "--master-addr": "127.0.0.1", "--master-port": "0", "--local-addr": "127.0.0.1", "--numa-binding": "node",
    "--signals-to-handle": "SIGTERM", "--shutdown-timeout": "30", "--virtual-local-rank": None, "--print-completion": "bash"
}
# launch refuses these, and says what to use.
REFUSED_FLAGS = {"--numa-binding": "not supported: use `launch ... -- numactl"}

# Variables that only one of the two gives its workers.
OF_TORCHRUN = {
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "it tells torchrun's own agent what --signals-to-handle says",
}
OF_LAUNCH = {
    "MUSTER_JOB_ID": "the runtime's", "MUSTER_ATTEMPT": "the runtime's", "MUSTER_NODE_ID": "the runtime's",
    "MUSTER_SOCKET": "the runtime's", "MUSTER_LOCAL_RANK": "the runtime's, with --virtual-local-rank",
    "PYTHONPATH": "the Python module `muster` stands there",
}
# Variables that both set and that may differ, unless the row says otherwise.
DIFFERENT = {
    "MASTER_PORT": "each run has a port of its own", "TORCHELASTIC_RUN_ID": "launch's default is the job's name",
    "TORCHELASTIC_MAX_RESTARTS": "launch's default is 3", "TORCHELASTIC_ERROR_FILE": "it is in the log directory of each",
    "PROBE_DIRECTORY": "this test's", "XDG_STATE_HOME": "this test's", "PET_MASTER_PORT": "this test's",
}

# Other variables that torchrun and its agent read or set, without those that begin with PET_, and what launch does with them.
SAME_VARIABLE, OF_WORKERS = "means the same", "is set for workers"
VARIABLES = {
    "PYTHON_EXEC": SAME_VARIABLE, "CUDA_VISIBLE_DEVICES": SAME_VARIABLE, "HIP_VISIBLE_DEVICES": SAME_VARIABLE, "OMP_NUM_THREADS": SAME_VARIABLE,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": SAME_VARIABLE, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": SAME_VARIABLE,
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "the same as --grace",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "the same as --uninterruptible-limit",
    "LOCAL_RANK": OF_WORKERS, "TORCHELASTIC_ERROR_FILE": OF_WORKERS, "TORCHELASTIC_MAX_RESTARTS": OF_WORKERS,
    "TORCHELASTIC_RESTART_COUNT": OF_WORKERS, "TORCHELASTIC_RUN_ID": OF_WORKERS, "TORCHELASTIC_USE_AGENT_STORE": OF_WORKERS,
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "see OF_TORCHRUN", "TORCH_WORKER_SERVER_SOCKET": "a worker reads it",
    "TORCHELASTIC_ENABLE_FILE_TIMER": "no effect: launch watches for hangs by itself",
    "TORCHELASTIC_TIMER_FILE": "no effect: launch watches for hangs by itself",
    "TORCHELASTIC_HEALTH_CHECK_PORT": "no effect: torch's own server of that port does nothing",
    "TORCHELASTIC_ETCD_BINARY_PATH": "no effect: there is no rendezvous", "USE_LIBUV": "no effect: the store is launch's",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "no effect: each attempt has a store of its own",
    "TORCH_ELASTIC_WORKER_IDENTICAL": "no effect: the launcher assigns ranks", "LOGLEVEL": "no effect: of torchrun's own log",
}


@dataclasses.dataclass
class Row:
    flags: list
    program: list = None  # None: the probe
    environment: dict = dataclasses.field(default_factory=dict)
    also: list = dataclasses.field(default_factory=list)  # further variables to agree on
    without: list = dataclasses.field(default_factory=list)  # of those, where launch differs on purpose
    code: int = 0  # launch's exit code; torchrun exits with 1 for every failure
    refused_by_both: bool = True
    ranks: int = 1

    def flags_named(self):
        """The flags of this row by their full names, given on the command line or by their variables."""
        named = [word.partition("=")[0].replace("_", "-") for word in self.flags if word.startswith("--")]
        by_variable = ["--" + name[len("PET_"):].lower().replace("_", "-") for name in self.environment if name.startswith("PET_")]
        letters = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
        return {flag for flag in named + by_variable + [letters.get(word[:2], "") for word in self.flags] if flag in FLAGS}


def words(text):
    return text.split()


# Where torchrun names the machine by its host name, launch's store listens only on this machine's loopback address.
LOOPBACK = ["MASTER_ADDR"]
RUN_ID, PORT, MOST = "TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_MAX_RESTARTS"

SAME = {
    "nothing": Row([]),
    "workers": Row(words("--nproc-per-node 2"), ranks=2),
    "underscores and =": Row(words("--nproc_per_node=2"), ranks=2),
    "abbreviated": Row(words("--standa --max-r 2"), also=[MOST], without=LOOPBACK),
    "workers by variable": Row([], environment={"PET_NPROC_PER_NODE": "2"}, ranks=2),
    "a flag wins over its variable": Row(words("--nproc-per-node 2"), environment={"PET_NPROC_PER_NODE": "3"}, ranks=2),
    "workers by the number of cores": Row(words("--nproc-per-node cpu"), ranks=len(os.sched_getaffinity(0))),
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
    "time to leave": Row(words("--shutdown-timeout 5")),
    "time to leave by variable": Row([], environment={"PET_SHUTDOWN_TIMEOUT": "5"}),
    "time to leave by torchrun's variable": Row([], environment={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5"}),
    "uninterruptible sleep": Row([], environment={"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "60"}),
    "begin of each line": Row(["--tee", "3", "--log-line-prefix-template", "${{hostname}} ${{rank}}: "]),
    "virtual local ranks": Row(words("--virtual-local-rank --nproc-per-node 2"), ranks=2),
    "virtual local ranks of a list": Row(words("--virtual-local-rank --nproc-per-node 2"), ranks=2,
                                         environment={"CUDA_VISIBLE_DEVICES": "5, 3,1"}),
    "virtual local ranks of ROCm's list": Row(words("--virtual-local-rank --nproc-per-node 2"), ranks=2,
                                              environment={"CUDA_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "6, 7"}),
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

# Neither starts a worker; launch exits with 2 and gives the reason in one line that names the first of these words.
REFUSED = {
    "binding to NUMA nodes": Row(["--numa-binding", "node"], refused_by_both=False),
    "a timeout in words": Row(["--shutdown-timeout", "soon"]),
    "a timeout in words by variable": Row([], environment={"PET_SHUTDOWN_TIMEOUT": "soon"}),
    "a timeout in words by torchrun's variable": Row([], environment={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "soon"}),
    "virtual local ranks without ROCm's GPUs": Row(["--virtual-local-rank", "--nproc-per-node", "2"],
                                                   environment={"CUDA_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "6"}),
    "an unknown shell": Row(["--print-completion", "pwsh"]),
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


def name_of(action):
    return next(spelling for spelling in action.option_strings if spelling.startswith("--")).replace("_", "-")


def variables_of_torchrun():
    """The names in torchrun's sources: in calls that read the environment, and in strings that look like torch's variables."""
    place = pathlib.Path(torch.distributed.__file__).parent
    sources = [place / "run.py", place / "argparse_util.py", *(place / "launcher").rglob("*.py"), *(place / "elastic").rglob("*.py")]
    reads = re.compile(r'(?:environ\.get\(|environ\[|getenv\(|environ\.pop\()\s*"([A-Z_0-9]+)"|"(TORCH[A-Z]*_[A-Z_0-9]+)"')
    return {name for source in sources for pair in reads.findall(source.read_text()) for name in pair if name}


def free_port():
    """A port outside the range that the kernel assigns: another test could get an assigned one before rank 0 here has bound it."""
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
    left_out = set()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.taken.close)

    def environment_of(self, row, directory, port):
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("MUSTER_", "PET_", "TORCH", "CUDA_", "HIP_", "SLURM_"))}
        return {**inherited, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable, "PROBE_DIRECTORY": str(directory),
                "XDG_STATE_HOME": str(directory / "state"), "PET_MASTER_PORT": str(port), **row.environment}

    def run_under(self, name, start, row, port):
        """Returns the exit code, the output, and what each rank found, by file name."""
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
        """Runs torchrun's main() in a child of this process, which has torch loaded: that saves 1.2 s per start."""
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
            except BaseException as error:  # prints it as the interpreter would
                os.write(2, repr(error).encode())
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.read_text()

    def both(self, row):
        theirs = self.run_under("torchrun", self.start_torchrun, row, free_port())
        ours = self.run_under("launch", self.start_launch, row, free_port())
        return theirs, ours

    def rows(self, table):
        """The rows of the table whose flags this torchrun has."""
        for name, row in table.items():
            # CUDA_VISIBLE_DEVICES reaches workers even of a torchrun that does not name it.
            unread = set(row.environment) & set(VARIABLES) - VARIABLES_HERE - {"CUDA_VISIBLE_DEVICES"}
            lacking = (row.flags_named() - FLAGS_HERE) | unread
            if not lacking:
                yield name, row
            elif name not in self.left_out:
                self.left_out.add(name)
                print(f"left out: {name}: this torchrun lacks {', '.join(sorted(lacking))}", file=sys.stderr)

    def compare(self, row, theirs, ours):
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, expected in theirs.items():
            found = ours[name]
            for key in ("argv", "script", "name"):
                self.assertEqual(found[key], expected[key], name)
            self.assertEqual(os.path.basename(found["directory"]), "launch")
            *before, module = found["environment"]["PYTHONPATH"].split(":")
            self.assertEqual(os.path.basename(module), "python.zip", name)  # ours, after the user's
            if before:
                found["environment"]["PYTHONPATH"] = ":".join(before)
            here, there = set(found["environment"]), set(expected["environment"])
            self.assertEqual(there - here - set(OF_TORCHRUN), set(), f"torchrun sets them for {name}: set them, or say why not")
            self.assertEqual(here - there - set(OF_LAUNCH), set(), f"launch sets them for {name}: say why")
            differing = set(DIFFERENT) - set(row.also) | set(row.without) | {PORT}
            for variable in sorted((here & there) - differing):
                self.assertEqual(found["environment"][variable], expected["environment"][variable], f"{variable} in {name}")

    def test_every_flag_of_torchrun_is_taken_or_refused_in_all_its_spellings(self):
        rows = set().union(*(row.flags_named() for row in [*SAME.values(), *REFUSED.values()]))
        self.assertEqual(FLAGS_HERE - set(FLAGS), set(), "this torchrun has flags that launch may not know")
        self.assertEqual(set(FLAGS) - rows, set(), "no row has them")
        for action in ACTIONS:
            name = name_of(action)
            value = FLAGS[name]
            self.assertEqual(value is None, action.nargs == 0, name)
            for spelling in action.option_strings:
                with self.subTest(spelling):
                    self.check_spelling(name, [spelling] if value is None else [spelling, value], {})
            if isinstance(action, (torch.distributed.argparse_util.env, torch.distributed.argparse_util.check_env)):
                variable = "PET_" + action.dest.upper()
                with self.subTest(variable):
                    self.check_spelling(name, [], {variable: "1" if value is None else value})

    def check_spelling(self, name, flags, variables):
        program = "no.module" if name == "--module" else "/bin/true"
        row = Row(["--dry-run", *flags], [program], variables)
        environment = {**self.environment_of(row, self.path, 0), **variables}
        code, text = self.start_launch([*row.flags, *row.program], environment, self.path)
        if name in REFUSED_FLAGS:
            self.assertEqual(code, 2, text)
            self.assertIn(REFUSED_FLAGS[name], text)
            self.assertEqual(text.count("\n"), 1, text)
        else:
            self.assertEqual(code, 0, text)

    def test_every_variable_that_torchrun_reads_is_known(self):
        self.assertIn("TORCHELASTIC_RUN_ID", VARIABLES_HERE)
        self.assertEqual(VARIABLES_HERE - set(VARIABLES), set(), "say what launch does with them")

    def test_completion_is_printed_as_launchs_own(self):
        for shell in ("bash", "zsh"):
            asked = self.start_launch(["--print-completion", shell], dict(os.environ), self.path)
            self.assertEqual(asked, self.start_launch(["completion", shell], dict(os.environ), self.path))
            self.assertEqual(asked[0], 0)

    def test_workers_find_what_they_find_under_torchrun(self):
        for name, row in self.rows(SAME):
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
        for name, row in self.rows(SAME):
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
        for name, row in self.rows(REFUSED):
            with self.subTest(name), tempfile.TemporaryDirectory(dir=self.path) as directory:
                self.path = pathlib.Path(directory)
                try:
                    (their_code, _, theirs), (our_code, our_text, ours) = self.both(row)
                    if row.refused_by_both:
                        self.assertNotEqual(their_code, 0)
                        self.assertEqual(theirs, {})
                    self.assertEqual(our_code, 2, our_text)
                    self.assertEqual(ours, {})
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
    ACTIONS = [action for action in torch.distributed.run.get_args_parser()._actions if action.option_strings and action.dest != "help"]
    FLAGS_HERE = {name_of(action) for action in ACTIONS}
    VARIABLES_HERE = variables_of_torchrun()
    print(f"torch {torch.__version__}", file=sys.stderr)
    TorchrunContract.launch = os.path.abspath(sys.argv.pop(1))
    unittest.main()
