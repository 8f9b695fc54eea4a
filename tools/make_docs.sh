#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_docs.sh SITE [PAGES]: write the pages of docs/ (or of another folder) as a site. Any warning is
# an error: a link that leads nowhere, a page outside the navigation, a name of the reference that
# is not there. Test: docs/test_site.py.
set -euo pipefail
site=$(realpath -m "$1")
cd "$(dirname "$0")/.."
sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --jobs auto \
  --doctree-dir "$site/.doctrees" "${2:-docs}" "$site"
