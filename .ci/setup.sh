#!/usr/bin/env bash
# Makes a Debian 12 machine ready and configures the build; ./demo and ./check
# source it. Everything is idempotent and quick when there is nothing to do:
# packages that are missing are installed (with sudo where needed), Python
# packages go into build/venv, the build into build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  ca-certificates git python3-venv
  cmake ninja-build ccache clang-22 lld-22 clang-format-22
  llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools liblld-22-dev
  zlib1g-dev libzstd-dev libxml2-dev
  libprotobuf-dev protobuf-compiler libdnnl-dev libgomp1
  openmpi-bin libopenmpi3 iproute2 pkgconf
  nlohmann-json3-dev libcli11-dev libxxhash-dev libgtest-dev libgmock-dev
)
# Sanitizers and libFuzzer, for ./check --fuzz, --sanitize and --full.
[ -z "${KERF_INSTRUMENTED:-}" ] || packages+=(libclang-rt-22-dev)

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '%s\n' "$*" >&2; }

install_packages() {
  local missing=() package root=
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "error: missing packages, and neither root nor sudo: ${missing[*]}"; exit 2; }
    root=sudo
  fi
  say "installing ${missing[*]}"
  $root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_python() {
  if ! cmp -s requirements.txt build/venv/requirements.txt; then
    say "installing $(grep -o '^[a-z-]*==[0-9.]*' requirements.txt | tr '\n' ' ')into build/venv"
    # Debian's own interpreter: lit and the tests run in the environment alone.
    /usr/bin/python3 -m venv --clear build/venv
    build/venv/bin/pip install -q --disable-pip-version-check -r requirements.txt
    cp requirements.txt build/venv/
  fi
}

configure() {
  if [ ! -e build/build.ninja ]; then
    say "configuring"
    cmake --preset release -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" >build/configure.log 2>&1 ||
      { cat build/configure.log >&2; exit 2; }
  fi
}

# build TARGET...: quiet but for what goes wrong.
build() {
  say "building"
  export CCACHE_BASEDIR=$PWD CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  if [ -t 1 ]; then
    ninja -C build "$@"
  else
    ninja -C build "$@" >build/build.log 2>&1 || { tail -60 build/build.log >&2; exit 2; }
  fi
}

mkdir -p build
install_packages
install_python
configure
