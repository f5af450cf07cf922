# Read by ./run and ./check: one environment in .venv, made with uv where it is there, else with venv and pip.

python_of_choice() {
  local name
  for name in "${PYTHON:-}" python3.12 python3.13 python3.14 python3.11 python3; do
    if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  echo "Lamella needs Python 3.11 to 3.14; none was found. Install one, or set PYTHON to its path." >&2
  exit 1
}

# prepare run | prepare test: nothing happens when the last installation was of the same pins.
prepare() {
  local extra="" stamp want
  [ "$1" = test ] && extra="[test]"
  stamp="$here/.venv/.installed-$1"
  want=$(cat "$here/pyproject.toml" "$here/constraints.txt" | cksum)
  if [ -x "$here/.venv/bin/lamella" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want $here" ]; then return; fi
  echo "Setting up .venv (once) …" >&2
  if [ ! -x "$here/.venv/bin/python" ] || ! "$here/.venv/bin/python" -c '' 2>/dev/null; then
    rm -rf "$here/.venv"
    if command -v uv >/dev/null 2>&1; then
      uv venv --quiet --python "$(python_of_choice)" "$here/.venv"
    else
      "$(python_of_choice)" -m venv "$here/.venv"
    fi
  fi
  if command -v uv >/dev/null 2>&1; then
    uv pip install --quiet --python "$here/.venv/bin/python" -c "$here/constraints.txt" -e "$here$extra"
  else
    "$here/.venv/bin/python" -m pip --version >/dev/null 2>&1 || "$here/.venv/bin/python" -m ensurepip --upgrade >/dev/null
    "$here/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$here/constraints.txt" -e "$here$extra"
  fi
  echo "$want $here" >"$stamp"
}

build_page() {
  "$here/.venv/bin/python" "$here/webbuild.py"
}
