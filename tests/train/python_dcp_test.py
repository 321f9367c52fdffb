"""muster.dcp.save() on several ranks, over what an interrupted save left behind.

usage: python_dcp_test.py LAUNCH   (run by the Python that has torch)
       python_dcp_test.py rank DIRECTORY   (a rank of the test's job)
"""
import datetime
import os
import subprocess
import sys
import tempfile
import unittest

LIMIT = 60  # seconds


def save_as_a_rank(directory):
    """Saves step 30, where rank 0 removes the old directory only when rank 1 has come as far as it can, and step 40, where rank 0 cannot remove it."""
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.filesystem import FileSystem

    import muster.dcp
    from muster import _checkpoints

    dist.init_process_group("gloo")
    order = dist.FileStore(os.path.join(directory, "order"), 2)
    mkdir, broadcast, remove = FileSystem.mkdir, dist.broadcast_object_list, _checkpoints.remove

    def mkdir_of_rank_1(self, path):
        order.set("rank 1 came", "")
        assert order.check(["removed"]), "rank 1 has made the directory before rank 0 removed the old one"
        mkdir(self, path)

    def broadcast_of_rank_1(*arguments, **options):
        order.set("rank 1 came", "")
        broadcast(*arguments, **options)

    def remove_of_rank_0(path):
        if path.endswith("40"):
            raise PermissionError(13, "not yours", path)
        order.wait(["rank 1 came"], datetime.timedelta(seconds=LIMIT))
        remove(path)
        order.set("removed", "")

    if dist.get_rank() == 0:
        _checkpoints.remove = remove_of_rank_0
    else:
        FileSystem.mkdir, dist.broadcast_object_list = mkdir_of_rank_1, broadcast_of_rank_1
    state = {"one": torch.ones(3)}
    muster.dcp.save(state, os.path.join(directory, "checkpoints"), 30)
    try:
        muster.dcp.save(state, os.path.join(directory, "checkpoints"), 40)
    except PermissionError as error:
        print(f"refused: {error}")
    dist.destroy_process_group()


class PythonDcp(unittest.TestCase):
    def test_no_rank_writes_before_rank_0_has_removed_what_was_left_behind(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as directory:
            old, saved = (os.path.join(directory, "checkpoints", name) for name in ("muster-new-step-30", "step-30"))
            os.makedirs(os.path.join(old, "left behind"))
            environment = dict(os.environ, PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1", XDG_STATE_HOME=directory)
            job = subprocess.run([LAUNCH, "--gpus-per-node", "2", "--device", "cpu", "--max-restarts", "0", __file__, "rank", directory],
                                 env=environment, capture_output=True, text=True, timeout=3 * LIMIT)
            self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
            self.assertEqual(job.stdout.count("refused: [Errno 13] not yours"), 2, job.stdout)
            self.assertEqual(os.listdir(os.path.dirname(saved)), ["step-30"])
            self.assertIn(".metadata", os.listdir(saved))
            self.assertNotIn("left behind", os.listdir(saved))


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        save_as_a_rank(sys.argv[2])
    else:
        LAUNCH = os.path.abspath(sys.argv.pop(1))
        unittest.main()
