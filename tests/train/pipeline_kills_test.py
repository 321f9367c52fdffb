"""usage: pipeline_kills_test.py LAUNCH TRAIN [--seed S]

Kills stages of a GPT at random moments; each job must end as the undisturbed one, bit for bit, dropout included.

The jobs are a GPT in four stages, and one in two stages with two replicas. The kills come one after the other, in the middle of steps. The profile that the
undisturbed job has stored decides where both are cut, in every attempt.
"""

import argparse
import glob
import os
import random
import shutil
import sys
import tempfile

from kills_test import KINDS, Job


class Pipeline(Job):
    WORLD_SIZE = 4
    LONGEST_DELAY = 0.1  # a step or more

    def words(self, arguments):
        words = ["--gpus-per-node", "4", "--restart-delay", "0", arguments.train, "--stages", str(arguments.stages), "--split", "profile", "--token-dir", os.path.dirname(self.directory)]
        words += ["--context", "32", "--width", "16", "--heads", "2", "--layers", "4", "--batch-size", "8"]
        return words + ["--max-steps", str(arguments.steps), "--checkpoint-every", "5"]


def kill_and_compare(arguments, scratch, stages, kills, steps, random_source):
    arguments.stages, arguments.steps = stages, steps
    os.mkdir(f"{scratch}/{stages}")
    os.mkdir(f"{scratch}/{stages}/undisturbed")
    expected = Pipeline(arguments, f"{scratch}/{stages}/undisturbed").ended()[0]
    profiles = glob.glob(f"{scratch}/{stages}/undisturbed/checkpoints/layer_profile.*.json")
    assert len(profiles) == 1, profiles
    os.makedirs(f"{scratch}/{stages}/hit/checkpoints")
    shutil.copy(profiles[0], f"{scratch}/{stages}/hit/checkpoints")
    job = Pipeline(arguments, f"{scratch}/{stages}/hit")
    attempt = 0
    for _ in range(kills):
        attempt = job.kill(KINDS[0], attempt, random_source.randint(1, 6), random_source)
        assert attempt, "the job ended before it had met all of its kills"
    digests, twice, _ = job.ended()
    assert digests == expected, f"{stages} stages ended with {digests}, the undisturbed ones with {expected}"
    print(f"{stages} stages: killed {kills} times, {twice} steps repeated: as undisturbed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("launch")
    parser.add_argument("train")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print("seed", arguments.seed, flush=True)
    random_source = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="muster-test-") as scratch:
        kill_and_compare(arguments, scratch, 4, 5, 80, random_source)
        kill_and_compare(arguments, scratch, 2, 2, 50, random_source)


if __name__ == "__main__":
    sys.exit(main())
