"""Which of a training's own checkpoints to go on from."""

import os
import re

import muster


def numbered(directory, pattern):
    """The paths of what lies in the directory, by the step that the pattern's group finds in the name."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = ((re.search(pattern, name), name) for name in names)
    return {int(match.group(1)): os.path.join(directory, name) for match, name in found if match}


def newest(checkpoints):
    """Of {step: path}, which seem whole, the step and path to go on from: what the launcher knows to be committed, and
    nothing newer while that or an older one is there; where it knows of none, as in a new launch, the newest. None: none."""
    known = muster.resume_step()
    steps = [step for step in checkpoints if known is None or step <= known] or list(checkpoints)
    return (max(steps), checkpoints[max(steps)]) if steps else None
