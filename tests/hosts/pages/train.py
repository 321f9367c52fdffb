# The script `train.py` of the documents, where tools/run_pages.py runs them.
import os, muster
muster.step(1)
print("rank", os.environ["RANK"])
