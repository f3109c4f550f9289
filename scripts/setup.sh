#!/usr/bin/env bash
# Installs the Debian packages that are missing. setup.sh [build|test|full]: what the program needs,
# what the tests need beside it, what `scripts/test --full` needs.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libhwy-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libpcre2-dev libutf8proc-dev libssl-dev
  libboost1.81-dev prometheus-cpp-dev
  python3-venv
)
# chromium drives the page's tests; nginx and haproxy stand before replicas in one.
tests=(libgtest-dev libgmock-dev libbenchmark-dev clang-format chromium nginx-light haproxy)
case "${1:-build}" in
  build) ;;
  test) packages+=("${tests[@]}") ;;
  full) packages+=("${tests[@]}" clang libclang-rt-dev clang-tidy) ;;
  *) echo "usage: setup.sh [build|test|full]" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    missing+=("$package")
done
((${#missing[@]} == 0)) && exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo: install these first: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
${as_root[@]+"${as_root[@]}"} apt-get update -qq
${as_root[@]+"${as_root[@]}"} apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
