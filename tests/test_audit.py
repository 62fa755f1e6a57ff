"""The check of pinned dependencies: against a database of our own making, and without any."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def audit(path, address):
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "audit.py", path],
        capture_output=True, text=True, env=os.environ | {"QUARTIC_OSV": address, "no_proxy": "*"}, timeout=60,
    )  # fmt: skip


@pytest.fixture
def database():
    """A server that knows of one bad version."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            bad = [query["package"]["name"] == "leaky" and query["version"] == "1.0" for query in queries]
            body = json.dumps({"results": [{"vulns": [{"id": "OSV-1"}]} if b else {} for b in bad]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("sound==1.0\n# a remark\nleaky==1.1\n", 0, "2 pinned packages, no known vulnerability"),
        ("sound==1.0\nleaky==1.0\n", 1, "leaky 1.0: OSV-1"),
        ("sound>=1.0\n", 1, "'sound>=1.0' is not pinned"),
    ],
)
def test_audit(tmp_path, database, text, code, words):
    path = tmp_path / "constraints.txt"
    path.write_text(text)
    done = audit(path, database)
    assert (done.returncode, words in done.stdout) == (code, True), done.stdout + done.stderr


def test_audit_without_a_network(tmp_path):
    path = tmp_path / "constraints.txt"
    path.write_text("sound==1.0\n")
    done = audit(path, "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "nothing was checked" in done.stdout
    assert "Traceback" not in done.stderr


def test_every_dependency_is_pinned():
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert all("==" in line for line in lines if line)
