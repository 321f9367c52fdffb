#!/usr/bin/env bash
# torch 2.15.0: a TCPStore on 127.0.0.1 asks the name server for the name of 127.0.0.1, though it was given a number and /etc/hosts has the name: the
# socket is an IPv6 one, and no hosts file has its peer ::ffff:127.0.0.1. The name is used only in messages. While the name server does not answer,
# the first connection of each process takes 10 s (two questions of 5 s; RES_OPTIONS sets both). A name server that loses one question in a hundred
# costs a job of many ranks 5 s at almost each start. USE_LIBUV=0 asks as well.
# Seen: "with hosts alone: 0.0 s; with a name server that is silent: 10.0 s, 2 questions about 1.0.0.127.in-addr.arpa". Expected: no question.
# usage: tcpstore_asks_dns_about_loopback.sh   (root, for a network of its own; PYTHON=... takes an environment with torch 2.15.0 instead of
# installing one: 5 GB)
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv" && PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install -q --no-cache-dir torch==2.15.0 numpy
fi
cat >"$folder/store.py" <<'P'
import socket, sys, threading, time
import torch
from torch.distributed import TCPStore
assert torch.__version__.startswith("2.15.0"), torch.__version__
questions = []
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
def hear():
    while True:
        question, at, labels = server.recv(512), 12, []
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        questions.append(".".join(labels))
threading.Thread(target=hear, daemon=True).start()
start = time.monotonic()
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(f"{time.monotonic() - start:.1f} {len(questions)} {' '.join(sorted(set(questions)))}")
P
printf '127.0.0.1 localhost\n' >"$folder/hosts"
printf 'nameserver 127.0.0.1\n' >"$folder/resolv.conf"
printf 'hosts: files\n' >"$folder/files"
printf 'hosts: files dns\n' >"$folder/dns"
in_a_network() {  # in_a_network NSSWITCH: prints the seconds, the number of questions, and their subjects
  unshare --mount --net bash -euc 'ip link set lo up
    mount --bind "$1/hosts" /etc/hosts; mount --bind "$1/resolv.conf" /etc/resolv.conf; mount --bind "$1/$2" /etc/nsswitch.conf
    exec env -u RES_OPTIONS USE_LIBUV="$4" "$3" "$1/store.py"' - "$folder" "$1" "$PYTHON" "$2" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
}
read -r hosts_alone none <<<"$(in_a_network files 1)"
read -r silent questions about <<<"$(in_a_network dns 1)"
read -r without_libuv _ <<<"$(in_a_network dns 0)"
echo "with hosts alone: $hosts_alone s; with a name server that is silent: $silent s, $questions questions about $about; without libuv: $without_libuv s"
[[ ${none%% *} == 0 && ${hosts_alone%.*} -lt 2 && ${silent%.*} -ge 9 && $questions == 2 && $about == 1.0.0.127.in-addr.arpa && ${without_libuv%.*} -ge 9 ]]
