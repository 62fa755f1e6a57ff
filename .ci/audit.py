"""Ask the OSV database whether a pinned dependency has a known vulnerability.

``python .ci/audit.py [constraints.txt]`` ends with 0 where there is none, 1 where there is one or a line pins nothing,
and 3 where the database cannot be reached: nothing is known then, and that is said. Only names and versions are sent.
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

DATABASE = os.environ.get("QUARTIC_OSV", "https://api.osv.dev/v1/querybatch")
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;#]+)")


def pins(path):
    """Return the pinned packages with their versions, and the lines that pin none."""
    found, loose = [], []
    for line in Path(path).read_text().splitlines():
        text = line.split("#")[0].strip()
        if text:
            match = PIN.match(text)
            (found if match else loose).append((match[1], match[2]) if match else text)
    return found, loose


def known(packages):
    """Return the identifiers of what is known about each package."""
    queries = [{"package": {"ecosystem": "PyPI", "name": name}, "version": version} for name, version in packages]
    request = urllib.request.Request(
        DATABASE, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        results = json.load(answer)["results"]
    return [[item["id"] for item in result.get("vulns", [])] for result in results]


def main(path="constraints.txt"):
    """Check the file, and return the exit status."""
    packages, loose = pins(path)
    for line in loose:
        print(f"{path}: {line!r} is not pinned to one version; write name==version")
    try:
        found = known(packages)
    except (urllib.error.URLError, TimeoutError, OSError, KeyError, ValueError) as error:
        print(f"the database of vulnerabilities cannot be reached ({error}); nothing was checked, try again online")
        return 3
    for (name, version), ids in zip(packages, found, strict=True):
        for name_of_it in ids:
            print(f"{name} {version}: {name_of_it}, https://osv.dev/{name_of_it}")
    if not loose and not any(found):
        print(f"{len(packages)} pinned packages, no known vulnerability")
    return int(bool(loose) or any(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
