#!/usr/bin/env python3
"""Reads the files of a muster::Logger after three restarts with TensorBoard's own reader and with W&B's client, and those of a sweep with TensorBoard's.

    logger_test.py RUN_RECORDS_TEST LAUNCH    the program of tests/unit/runtime/run_records_test.cc, and launch
"""

import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, plugin_data_pb2
from tensorboard.util import tensor_util
from wandb.proto import wandb_internal_pb2

import muster.wandb


def check(condition, what):
    if not condition:
        sys.exit(f"logger_test.py: {what}")


def pixels_of(png):
    """The rows of a PNG without filters; checks its checksums."""
    check(png[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG")
    at, packed, head = 8, b"", b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        check(struct.unpack(">I", png[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content), f"checksum of {kind}")
        head = content if kind == b"IHDR" else head
        packed += content if kind == b"IDAT" else b""
        at += 12 + size
    width, height, _, colour = struct.unpack(">IIBB", head[:10])
    row = 1 + width * (3 if colour == 2 else 1)
    raw = zlib.decompress(packed)
    return [raw[r * row + 1 : (r + 1) * row] for r in range(height)]


def wandb_records(path):
    """The records of W&B's file, in LevelDB's format: blocks of 32 KiB, parts with checksum, length and kind."""
    with open(path, "rb") as file:
        content = file.read()
    at, record = 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        record += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def check_wandb(directory):
    with open(os.path.join(directory, "metrics.jsonl"), "a") as file:
        file.write('{"step": 400, "time": 0, "loss": 7}\n{"step": 401, "time": 0, "loss": null}\n{"step": 401, "ti')
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(muster.__file__)), "WANDB_SILENT": "true"}
    subprocess.run([sys.executable, "-B", "-m", "muster.wandb", directory, "--project", "test", "--once"], env=environment, check=True)
    steps, config = [], {}
    for record in wandb_records(glob.glob(f"{directory}/wandb/offline-run-*/*.wandb")[0]):
        row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        if "loss" in row:
            steps.append(row["step"])
            check(abs(row["loss"] - 10 / row["step"]) < 1e-9, f"W&B's loss {row}")
        config.update((item.key, json.loads(item.value_json)) for item in record.config.update if item.key)
        config.update((item.key, json.loads(item.value_json)) for item in record.run.config.update if item.key)
    check(steps == list(range(1, 401)), f"W&B's steps {steps}")
    check(config.get("lr") == 0.1 and config.get("name") == "small", f"W&B's settings {config}")


def check_tail(path):
    tail = muster.wandb.Tail(path)
    check(tail.read() == [], "a file that is not there yet")
    contents = ((b"1\n2\n3", [b"1\n", b"2\n"]), (b"1\n2\n3\n4\n", [b"3\n", b"4\n"]), (b"1\n2\n", [b"1\n", b"2\n"]), (b"1\n5\n6\n7\n8\n", [b"1\n", b"5\n", b"6\n", b"7\n", b"8\n"]))
    for content, expected in contents:
        with open(path, "wb") as file:
            file.write(content)
        check((lines := tail.read()) == expected, f"{lines} of {content}")


def check_sweep(launch, directory):
    """The tab HPARAMS has each trial's parameters, its newest loss and how it ended."""
    sweep, runs = os.path.join(directory, "sweep"), os.path.join(directory, "runs")
    script = "echo MUSTER_METRIC loss=5 step=1; echo MUSTER_METRIC loss=$1 step=2; test $1 != 3"
    flags = ["--space", "x=choice:1:2:3,act=choice:relu", "--search", "grid", "--metric", "loss", "--sweep-dir", sweep]
    subprocess.run([launch, "sweep", "run", *flags, "--quiet", "--", "sh", "-c", script, "trial", "{x}"], check=True, stderr=subprocess.DEVNULL)
    for _ in range(2):  # the second export replaces the first
        subprocess.run([launch, "sweep", "export", sweep, "--tensorboard", runs], check=True, stdout=subprocess.DEVNULL)
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(runs).Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, runs)
    backend = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=10, allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE], include_metrics=True
    )
    groups = list_session_groups.Handler(context.RequestContext(), backend, "", request).run().session_groups
    got = [
        (group.name, group.hparams["x"].number_value, group.hparams["act"].string_value, *(value.value for value in group.metric_values),
         group.metric_values[0].training_step, api_pb2.Status.Name(group.sessions[0].status))
        for group in groups
    ]
    expected = [(f"trial-{x - 1:04}", x, "relu", x, 2, "STATUS_FAILURE" if x == 3 else "STATUS_SUCCESS") for x in (1, 2, 3)]
    check(sorted(got) == expected, f"the tab HPARAMS has {got}")


def main():
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [sys.argv[1], "--gtest_filter=RunRecords.WritesWhatTensorBoardReads"],
            env=os.environ | {"MUSTER_RECORDS_DIRECTORY": directory},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        events = EventAccumulator(directory, size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
        events.Reload()
        check_wandb(directory)
        check_tail(os.path.join(directory, "tail"))
        check_sweep(sys.argv[2], directory)
    tags = events.Tags()
    check(set(tags["scalars"]) == {"accuracy", "loss", "lr"}, f"scalars {tags['scalars']}")
    loss = events.Scalars("loss")
    check([each.step for each in loss] == list(range(1, 401)), f"steps {[each.step for each in loss]}")
    check(all(abs(each.value - 10 / each.step) < 1e-6 * each.value for each in loss), "losses")
    weights = events.Histograms("weights")
    histogram = weights[0].histogram_value
    check((histogram.min, histogram.max, histogram.num, histogram.sum) == (-500, 500, 1001, 0), f"histogram {histogram}")
    check(histogram.sum_squares == 2 * sum(i * i for i in range(501)), "squares")
    check(sum(histogram.bucket) == 1001 and len(histogram.bucket) == len(histogram.bucket_limit), "buckets")
    below_100 = sum(count for limit, count in zip(histogram.bucket_limit, histogram.bucket) if limit < 100)
    check(abs(below_100 - 600) <= 10, f"{below_100} of the values in buckets below 100")
    check(weights[1].histogram_value.num == 0, "the empty histogram")
    pictures = events.Images("picture")
    check([(each.height, each.width) for each in pictures] == [(16, 24)] * 2, "sizes of the pictures")
    expected = [b"".join(bytes((row * 16, column * 10, 0)) for column in range(24)) for row in range(16)]
    check(pixels_of(pictures[0].encoded_image_string) == expected, "the picture in colours")
    check(pixels_of(pictures[1].encoded_image_string) == [b"\x80" * 24] * 16, "the grey picture")
    note = tensor_util.make_ndarray(events.Tensors("note/text_summary")[0].tensor_proto)
    check(list(note) == [b"**a note**"], f"text {note}")
    plugin = events.PluginTagToContent("hparams")
    start = plugin_data_pb2.HParamsPluginData.FromString(plugin["_hparams_/session_start_info"]).session_start_info.hparams
    got = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.items()}
    check(got == {"lr": 0.1, "layers": 3, "name": "small", "warm": True}, f"hyper-parameters {got}")
    experiment = plugin_data_pb2.HParamsPluginData.FromString(plugin["_hparams_/experiment"]).experiment
    check([each.name.tag for each in experiment.metric_infos] == ["accuracy"], "metrics of the experiment")
    print("TensorBoard and W&B read what the logger writes, and TensorBoard a sweep")


if __name__ == "__main__":
    main()
