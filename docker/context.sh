#!/usr/bin/env bash
# Makes the folder that docker/Dockerfile builds images from: an installed Muster, programs, and the libraries that ldd names.
# Building an image from it needs neither a compiler nor a registry of Python packages, and the image contains no headers of LibTorch.
set -euo pipefail

usage() {
  cat <<'TEXT'
docker/context.sh [--cuda] [--build DIR] CONTEXT [PROGRAM...]

CONTEXT      the folder to make, as in: docker build --target runtime -t muster CONTEXT
PROGRAM      a program for /usr/local/bin of the image, with the libraries that it needs (default: DIR/bin/train_fashion_mnist)
--build DIR  the build to install (default: build/release)
--cuda       for the target cuda: the CUDA libraries of torch's wheel too (4 GB)
TEXT
}

die() {
  printf 'context.sh: %s\n' "$*" >&2
  exit 2
}

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
build=$here/../build/release cuda='' context='' programs=()
while (($# > 0)); do
  case $1 in
    --cuda) cuda=yes ;;
    --build)
      (($# > 1)) || die "--build: a folder must follow"
      build=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) die "unknown flag '$1' (--help lists them)" ;;
    *) if [[ -z $context ]]; then context=$1; else programs+=("$1"); fi ;;
  esac
  shift
done
[[ -n $context ]] || die "name the folder to make (see --help)"
[[ -f $build/cmake_install.cmake ]] || die "$build is not a build: run ./dev build first, or name one with --build"
build=$(realpath "$build")
((${#programs[@]} > 0)) || programs=("$build/bin/train_fashion_mnist")
for program in "${programs[@]}"; do
  [[ -f $program && -x $program ]] || die "$program is not a program: build it first"
done
mark=.made-by-muster # in a folder with this file, the script removes what it made before
if [[ -e $context && ! -f $context/$mark && -n $(ls -A "$context" 2>/dev/null || echo file) ]]; then
  die "$context exists, but this script did not make it: name another folder"
fi

mkdir -p "$context/muster"
touch "$context/$mark"
context=$(realpath "$context")
rm -rf "${context:?}"/{Dockerfile,muster,programs,scripts,libraries,cuda}

mkdir -p "$context"/{programs/bin,scripts/lib/muster,libraries}
# install_component NAME: a component of cmake/install.cmake. `development` is only for compilers.
install_component() { cmake --install "$build" --prefix "$context/muster" --component "$1" 2>&1; }
installed=$(install_component programs && install_component libraries) ||
  die "cannot install $build, which may be a partial build, as ./dev demo makes: run ./dev build first ($(tr -s '\n ' ' ' <<<"$installed" | sed 's/.*CMake Error at [^ ]* ([^)]*): //; s/ *Call Stack.*//; s/ *$//'))"
cp "${programs[@]}" "$context/programs/bin"
for script in check_libraries node launcher; do
  install -m 755 "$here/$script.sh" "$context/scripts/lib/muster/$script"
done

# copy FOLDER FILE: makes a hard link if possible.
copy() {
  mkdir -p "$1"
  ln -fL "$2" "$1/" 2>/dev/null || cp -L "$2" "$1/"
}

# place FOLDER [OTHER]: copies the libraries whose paths stdin lists, except those in OTHER. LibTorch's and the wheel's libraries keep their
# places relative to each other, since they find each other by relative paths.
place() {
  local file folder below
  while read -r file; do
    folder=$(realpath "$(dirname "$file")")
    case $folder in
      */nvidia/*/lib) below=nvidia/${folder#"${folder%/nvidia/*}"/nvidia/} ;;
      "$torch") below=torch/lib ;;
      *) below=system ;;
    esac
    [[ -n ${2:-} && -f $2/$below/${file##*/} ]] || copy "$1/$below" "$file"
  done
}

# needed FILE...: the libraries that ldd names, without glibc: the image has its own.
needed() {
  local said
  said=$(ldd "$@" 2>&1) || true
  if grep -q 'not found' <<<"$said"; then die "a library is missing on this machine too: $(grep 'not found' <<<"$said" | sort -u | tr -s '\n\t ' ' ')"; fi
  sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p' <<<"$said" | sort -u |
    grep -vE '/(ld-linux[^/]*|lib(c|m|pthread|dl|rt|util|resolv|anl|mvec)\.so\.[0-9]+)$' || true
}

elf=()
for file in "$context"/muster/bin/* "${programs[@]}"; do
  if [[ $(head -c 4 "$file" | tail -c 3) == ELF ]]; then elf+=("$file"); fi
done
torch=$(ldd "${elf[@]}" | sed -n 's/.*=> \(.*\)\/libtorch_cpu\.so (.*/\1/p' | head -n 1)
torch=${torch:+$(realpath "$torch")}
needed "${elf[@]}" | place "$context/libraries"

nccl=$context/muster/lib/libmuster_nccl.so
if [[ -n $cuda ]]; then
  [[ -f $nccl && -f $torch/libtorch_cuda.so ]] || die "--cuda: this build is for CPUs only: its LibTorch has no CUDA, or CMake did not find CUDA's headers"
  mkdir -p "$context/cuda/muster/lib"
  mv "$nccl" "$context/cuda/muster/lib"
  # A running program loads parts of cuDNN, cuBLAS and NVRTC by name: ldd does not see them.
  {
    find "$torch" -maxdepth 1 -name '*.so*' ! -name 'libtorch_python.so' ! -name 'libshm*'
    find "$torch"/../../nvidia/*/lib -maxdepth 1 -name '*.so*' 2>/dev/null || true
  } | place "$context/cuda/libraries" "$context/libraries"
else
  rm -f "$nccl"
fi
target=runtime
[[ -z $cuda ]] || target=cuda
cp "$here/Dockerfile" "$context/Dockerfile"
printf 'context.sh: made %s (%s); next: docker build --target %s -t muster %s\n' "$context" "$(du -sh "$context" | cut -f 1)" \
  "$target" "$context"
