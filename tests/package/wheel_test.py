"""wheel_test.py BUILD VERSION TORCH_PYTHON|"" [--other-glibc]: packs the wheel from a build, and uses it as people do.

With --other-glibc, as root: in root file systems of the oldest and the newest Debian that this machine's mirror has.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's modules wheel and venv belong to this one
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}


def run(*command, **options):
    """Returns what the command prints on both streams. A failure is an error that shows it."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def files_below(folder):  # pip leaves empty folders
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir() and "__pycache__" not in path.parts}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="wheel_test."))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        run("cmake", "--install", BUILD, "--component", "programs", "--strip", "--prefix", cls.scratch / "installed")
        pack = SOURCE / "tools/pack_wheel.py"
        cls.wheel = run(SYSTEM_PYTHON, "-B", pack, cls.scratch / "installed", VERSION, cls.scratch / "dist").strip()


class Wheel(Case):
    def environment(self):
        """A new virtual environment, and the variables of a user who has activated it."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        run(SYSTEM_PYTHON, "-m", "venv", folder / "venv")
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHON_EXEC")}
        variables |= {"PATH": f"{folder}/venv/bin:/usr/bin:/bin", "HOME": str(folder), "XDG_STATE_HOME": f"{folder}/state"}
        return folder, variables

    def install(self, folder):
        run(folder / "venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", self.wheel)

    def test_needs_no_glibc_newer_than_its_tag_and_no_other_library(self):
        unpacked = self.scratch / "unpacked"
        shutil.unpack_archive(self.wheel, unpacked, "zip")
        found = [path for path in unpacked.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF" and path.suffix != ".o"]
        self.assertEqual({"launch", "muster-agent", "libmuster_tls.so", "libmuster_warm.so"} - {path.name for path in found}, set())
        for path in found:
            versions = re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_(\w+(?:\.\d+)*)", run("objdump", "-T", path))
            with self.subTest(path.name):
                self.assertEqual({name for name, _ in versions}, {"GLIBC"})
                self.assertLessEqual(max(tuple(map(int, version.split("."))) for _, version in versions), (2, 28))
                self.assertLessEqual(set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path))), LIBRARIES)

    def test_describes_itself_without_links_that_lead_nowhere(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = wheel.read(name).decode()
        self.assertIn(f"Version: {VERSION}\n", metadata)
        self.assertIn("launch --gpus-per-node 2 train.py", metadata)
        self.assertEqual(re.findall(r"\]\((?!https?://)[^)]*\)", metadata), [])

    def test_has_the_licences_of_the_libraries_that_its_programs_are_linked_with(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            name = next(each for each in wheel.namelist() if each.endswith("/share/doc/muster/third_party_licenses.txt"))
            licenses = wheel.read(name).decode()
        for text in ("OpenSSL", "Boost Software License - Version 1.0", "zlib", "SQLite", "yaml-cpp", "fmt", "nlohmann", "CLI11", "xxHash", "GCC Runtime"):
            with self.subTest(text):
                self.assertIn(text.lower(), licenses.lower())

    def test_runs_where_it_was_installed_and_leaves_nothing(self):
        folder, variables = self.environment()
        before = files_below(folder / "venv")
        self.install(folder)
        self.assertIn(VERSION, run("launch", "--version", env=variables))
        self.assertEqual(run("launch", "--version", env=variables), run("python", "-m", "muster", "--version", env=variables))
        (folder / "train.py").write_text("import os, muster\nmuster.step(1)\nprint('rank', os.environ['RANK'], muster.__file__)\n")
        out = run("launch", "--nodes", "2", "--gpus-per-node", "2", "--control", "tcp", "train.py", env=variables, cwd=folder)
        for rank in range(4):
            self.assertRegex(out, rf"rank {rank} {folder}/venv/lib/python3[.0-9]+/site-packages/muster/")
        run(folder / "venv/bin/pip", "uninstall", "--yes", "--disable-pip-version-check", "muster-launch")
        self.assertEqual(files_below(folder / "venv") - before, set())

    def test_is_installed_as_the_documents_say(self):
        folder, variables = self.environment()
        files = folder / "files"
        (files / "dist").mkdir(parents=True)
        shutil.copy(self.wheel, files / "dist")
        (files / "dev").write_text(f"#!/bin/sh\ntest package = \"$*\" && cp {self.wheel} dist/\n")  # the wheel is built already
        (files / "dev").chmod(0o755)
        (files / "train.py").write_text("import muster\nprint('muster is', muster.__file__)\n")
        def run_pages(*pages):
            return run(SYSTEM_PYTHON, "-B", SOURCE / "tools/run_pages.py", "--where", "wheel", "--show", "--bin", folder / "venv/bin", "--files", files,
                       "--replace", f".../muster/python={SOURCE}/python", *(SOURCE / page for page in pages),
                       env=variables | {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})

        out = run_pages("README.md", "docs/start/one_machine.md", "docs/install.md")  # the first two make environments of their own
        self.assertEqual(len(re.findall(r"Successfully installed muster", out)), 3, out)
        self.assertIn(f"muster is {SOURCE}/python/muster/", run_pages("docs/python.md"))

    def test_says_what_to_install_instead_of_an_agent_of_another_version(self):
        folder, variables = self.environment()
        self.install(folder)
        program = folder / "venv/bin/muster-agent"
        content, theirs = program.read_bytes(), VERSION.encode()
        self.assertGreater(content.count(theirs), 0)
        program.write_bytes(content.replace(theirs, re.sub(rb"[0-9]", b"0", theirs)))
        done = subprocess.run(["launch", "true"], env=variables, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"the agent is older than this launcher \(Muster \S+, not \S+\): install the same Muster on all nodes")

    @unittest.skipUnless(len(sys.argv) > 3 and sys.argv[3], "needs a Python with torch")
    def test_trains_with_the_torch_of_another_python(self):
        folder, variables = self.environment()
        self.install(folder)
        shutil.copy(HERE / "train.py", folder)
        out = run("launch", "--gpus-per-node", "2", "train.py", env=variables | {"PYTHON_EXEC": sys.argv[3]}, cwd=folder)
        self.assertEqual(len(set(re.findall(r"weights (\S+)", out))), 1, out)
        self.assertEqual(len(re.findall(r"weights (\S+)", out)), 2, out)


class OtherGlibc(Case):
    def root(self, suite):
        root = self.scratch / suite
        mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()[0]
        # The packages are only unpacked: half a minute sooner than installed. A mirror's copy of testing may be some weeks old.
        run("mmdebstrap", "--quiet", "--variant=extract", "--include=base-files,coreutils,python3-minimal", '--aptopt=Acquire::Check-Valid-Until "false"', suite,
            root, f"deb {mirror} {suite} main")
        run(SYSTEM_PYTHON, "-m", "venv", self.scratch / "pip")
        run(self.scratch / "pip/bin/pip", "install", "--no-index", "--disable-pip-version-check", "--prefix", root / "usr/local", self.wheel)
        return root

    def in_root(self, root, *command):
        inside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", inside, root, "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root",
                   *command)

    def check(self, suite):
        root = self.root(suite)
        for control in ("socket", "tcp"):
            out = self.in_root(root, "launch", "--nodes", "2", "--gpus-per-node", "2", "--control", control, "--", "python3", "-c",
                               "import os; print('rank', os.environ['RANK'])")
            self.assertEqual(sorted(re.findall(r"rank (\d)", out)), ["0", "1", "2", "3"], out)
        crash = ["launch", "--max-restarts", "0", "--", "python3", "-c", "import os; os.kill(os.getpid(), 11)"]
        out = self.in_root(root, "python3", "-c", f"import subprocess; print('code', subprocess.run({crash}).returncode)")
        self.assertIn("was killed by SIGSEGV", out)
        self.assertIn("code 139", out)
        mpi = ["launch", "--mpi", "pmix", "--max-restarts", "0", "--", "true"]
        out = self.in_root(root, "python3", "-c", f"import subprocess; print('code', subprocess.run({mpi}).returncode)")
        self.assertIn("--mpi pmix needs the PMIx library on every node (Debian's libpmix2): libpmix.so.2: cannot open", out)
        self.assertIn("code 125", out)
        return self.in_root(root, "python3", "-c", "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))").split()[1]

    def test_the_oldest_debian_of_the_mirror(self):
        self.assertEqual(self.check("bullseye"), "2.31")

    def test_debian_testing(self):
        version = self.check("testing")
        self.assertGreaterEqual(tuple(map(int, version.split("."))), (2, 41))


if __name__ == "__main__":
    BUILD, VERSION = sys.argv[1:3]
    name = "OtherGlibc" if "--other-glibc" in sys.argv else "Wheel"
    if not pathlib.Path("/usr/lib/python3/dist-packages/wheel").exists():
        sys.exit("install Debian's python3-wheel")
    unittest.main(argv=sys.argv[:1], defaultTest=name)
