#!/usr/bin/env bash
# package_test.sh BUILD CXX [TORCH]: makes the packages of BUILD with cpack. Installs, runs and removes them in a Debian bookworm of its own, made
# by mmdebstrap. Installs both packages over this machine's files, trains with Python, builds programs with LibTorch in the folder TORCH, and removes the
# packages. Without TORCH, BUILD has no runtime.
set -euo pipefail
build=$1 cxx=$2 torch=${3:-}
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

fail() {
  echo "package_test.sh: $*" >&2
  exit 1
}
((EUID == 0)) || { echo "skipped: only root can install packages"; exit 77; }
for tool in mmdebstrap lintian pkg-config; do
  [[ -n $(type -P $tool) ]] || { echo "skipped: $tool is missing: ./dev test clusters installs it"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root

make_packages() {
  (cd "$scratch" && cpack --config "$build/CPackConfig.cmake" -B "$scratch/dist" -G "DEB;TGZ")
  lintian --allow-root --fail-on error "$scratch"/dist/*.deb
}

# The packages come from the mirror of this machine's apt.
make_debian() {
  local uri
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | grep -v security | head -n 1)
  mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Languages "none"' bookworm "$root" ${uri:+"deb $uri bookworm main"}
}
in_debian() { # in_debian COMMAND...: with processes of its own, which end with the command
  unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin "$@"
}
files() { # all but dpkg's own records
  (cd "$root" && find . \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/log \) -prune -o -print | sort)
}

# runs LAUNCH: starts ranks of one node, then of two whose agents connect by TLS.
runs() {
  local said
  said=$(in_debian "$1" --log-dir /tmp/logs --gpus-per-node 2 -- sh -c 'echo rank $RANK' 2>&1) || fail "$1: $said"
  [[ $said == *"rank 0"* && $said == *"rank 1"* && $said == *"2 ranks succeeded"* ]] || fail "$1: $said"
  said=$(in_debian "$1" --log-dir /tmp/logs --nodes 2 --control tcp -- sh -c 'echo rank $RANK on node $GROUP_RANK' 2>&1) || fail "$1: $said"
  [[ $said == *"rank 1 on node 1"* && $said == *"2 ranks succeeded"* ]] || fail "$1: $said"
  rm -rf "$root/tmp/logs"
}

installed_and_removed() {
  local before
  before=$(files)
  cp "$scratch"/dist/muster_*.deb "$root/muster.deb"
  in_debian dpkg -i /muster.deb
  rm "$root/muster.deb"
  runs /usr/bin/launch
  [[ -f $root/usr/share/man/man1/launch.1.gz && -f $root/usr/share/doc/muster/copyright ]] || fail "the man page or the copyright is missing"
  grep -q "Boost Software License - Version 1.0" "$root/usr/share/doc/muster/third_party_licenses.txt" || fail "the licences of the libraries are missing"
  in_debian dpkg -P muster
  diff <(echo "$before") <(files) || fail "dpkg -P muster leaves files (>) or has removed others (<)"
}

archive_runs_anywhere() {
  local folder
  for folder in opt/muster "srv/a folder"; do
    mkdir -p "$root/$folder"
    tar -xf "$scratch"/dist/muster-*.tar.gz -C "$root/$folder" --strip-components 1
    runs "/$folder/bin/launch"
    [[ -s $root/$folder/share/doc/muster/third_party_licenses.txt ]] || fail "/$folder: the licences of the libraries are missing"
    rm -rf "${root:?}/$folder"
  done
}

# The root file system of this machine, where both packages are installed: compiler, Python and the development packages are there. The overlay
# writes to memory, in a mount namespace of its own.
on_this_machine() { # on_this_machine FUNCTION
  export -f fail in_machine changes trains installed_develops
  export scratch here cxx torch
  unshare --mount bash -euo pipefail -c '
    mount -t tmpfs none "$scratch/machine"
    mkdir "$scratch"/machine/{changes,work,root,packages}
    cp "$scratch"/dist/*.deb "$scratch/machine/packages"
    mount -t overlay -o "lowerdir=/,upperdir=$scratch/machine/changes,workdir=$scratch/machine/work" none "$scratch/machine/root"
    cd "$scratch/machine/root"
    mkdir -p "./$torch" "./$here"
    for folder in "$torch" "$here/../install" "$here"; do
      mkdir -p "./$folder" && mount --bind "$folder" "./$folder" && mount -o remount,bind,ro "./$folder"
    done
    mount -t tmpfs none tmp && mkdir tmp/packages && mount --bind "$scratch/machine/packages" tmp/packages
    mount --rbind /dev dev
    "$1"' on_this_machine "$1"
}
in_machine() { # in_machine COMMAND...: with processes of its own, which end with the command
  timeout -s KILL 120 unshare --mount --pid --fork --kill-child --mount-proc="$scratch/machine/root/proc" chroot "$scratch/machine/root" \
    env -i HOME=/tmp PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
changes() { # files that the overlay has of its own, without records of dpkg and ldconfig
  (cd "$scratch/machine/changes" && find . \( -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./tmp -o -name 'ld.so.cache*' \) -prune \
    -o ! -type d -print | sort)
}

# trains PROGRAM: alone, then as two ranks that are forked from one process.
trains() {
  in_machine "$1"
  # Seems to have a GPU: the runtime loads libmuster_nccl.so and the CUDA libraries that it needs.
  in_machine unshare --mount sh -c 'mount -t tmpfs none /dev && mkdir /dev/shm && touch /dev/nvidiactl &&
    mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9 && exec "$1"' sh "$1"
  in_machine launch --gpus-per-node 2 --device cpu --log-dir /tmp/logs "$1" --under-launch
  grep -q "2 of 2 workers were forked" "$scratch"/machine/root/tmp/logs/*/agent.node0.log || fail "$1 was not started warm"
  rm -rf "$scratch/machine/root/tmp/logs"
}

installed_develops() {
  local before said python
  before=$(changes)
  in_machine sh -c 'dpkg -i /tmp/packages/*.deb'

  python=$torch/../../../../bin/python
  [[ -x $python ]] || python=python3
  said=$(in_machine env PYTHON_EXEC="$python" launch --log-dir /tmp/logs --gpus-per-node 2 --device cpu "$here/train.py" 2>&1) || fail "train.py: $said"
  [[ $(grep -o 'weights [0-9a-f]*' <<<"$said" | sort | uniq -c) =~ ^\ *2\ weights ]] || fail "the ranks of train.py have different weights: $said"
  rm -rf "$scratch/machine/root/tmp/logs"

  in_machine cmake -G Ninja -S "$here/../install" -B /tmp/build "-DCMAKE_CXX_COMPILER=$cxx" "-DMUSTER_TORCH_DIR=$torch"
  in_machine cmake --build /tmp/build
  trains /tmp/build/outside
  in_machine sh -eu -c 'exec "$1" $(pkg-config --cflags muster) -isystem "$2/include" -isystem "$2/include/torch/csrc/api/include" "$3/main.cc" -o /tmp/outside \
    "$(pkg-config --variable=warm_start muster)" $(pkg-config --libs muster) "-L$2/lib" "-Wl,-rpath,$2/lib" -ltorch_cpu -lc10' \
    sh "$cxx" "$torch" "$here/../install"
  trains /tmp/outside

  in_machine dpkg -P libmuster-dev muster
  diff <(echo "$before") <(echo "$(changes)") || fail "dpkg -P leaves files (>) or has removed others (<)"
}

make_packages
make_debian
installed_and_removed
archive_runs_anywhere
if [[ -n $torch ]]; then
  mkdir "$scratch/machine"
  on_this_machine installed_develops
else
  [[ ! -e $(echo "$scratch"/dist/libmuster-dev_*) ]] || fail "a build without the runtime has made libmuster-dev"
fi
