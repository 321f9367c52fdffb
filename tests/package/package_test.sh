#!/usr/bin/env bash
# package_test.sh BUILD CXX [TORCH]: makes the packages of BUILD with cpack. Installs, runs and removes them in a Debian bookworm of its own, made
# by mmdebstrap, and builds programs with libmuster-dev and LibTorch in the folder TORCH. Without TORCH, BUILD has no runtime.
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

# trains PROGRAM: alone, then as two ranks that are forked from one process.
trains() {
  "$1"
  # Seems to have a GPU: the runtime loads libmuster_nccl.so and the CUDA libraries that it needs.
  unshare --mount sh -c 'mount -t tmpfs none /dev && mkdir /dev/shm && touch /dev/nvidiactl &&
    mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9 && exec "$1"' sh "$1"
  "$usr/bin/launch" --gpus-per-node 2 --device cpu --log-dir "$scratch/logs" "$1" --under-launch
  grep -q "2 of 2 workers were forked" "$scratch"/logs/*/agent.node0.log || fail "$1 was not started warm"
  rm -rf "$scratch/logs"
}

develops() {
  local package flags libraries
  for package in "$scratch"/dist/*.deb; do dpkg-deb -x "$package" "$scratch/packages"; done
  usr=$scratch/packages/usr
  cmake -G Ninja -S "$here/../install" -B "$scratch/build" "-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_PREFIX_PATH=$usr" "-DMUSTER_TORCH_DIR=$torch"
  cmake --build "$scratch/build"
  trains "$scratch/build/outside"

  export PKG_CONFIG_PATH=$usr/lib/pkgconfig
  read -ra flags < <(pkg-config --cflags muster)
  read -ra libraries < <(pkg-config --libs muster)
  "$cxx" "${flags[@]}" -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" "$here/../install/main.cc" -o "$scratch/outside" \
    "$(pkg-config --variable=warm_start muster)" "${libraries[@]}" "-L$torch/lib" "-Wl,-rpath,$torch/lib" -ltorch_cpu -lc10
  trains "$scratch/outside"
}

make_packages
make_debian
installed_and_removed
archive_runs_anywhere
if [[ -n $torch ]]; then
  develops
else
  [[ ! -e $(echo "$scratch"/dist/libmuster-dev_*) ]] || fail "a build without the runtime has made libmuster-dev"
fi
