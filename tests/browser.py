"""Chromium without a window, driven over a pipe by its DevTools protocol; nothing to install besides the browser."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A browser with one page; what it logs and what it asks for is written down."""

    def __init__(self, patience=60.0):
        self.patience, self.number = patience, 0
        self.errors, self.requests = [], []
        self.buffer = b""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="quartic-browser-")
        # the browser reads commands from descriptor 3 and answers on 4
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        high = [os.dup(read_commands), os.dup(write_answers)]
        line = 'exec "$0" "$@" 3<&{} 4>&{}'.format(*high)
        self.process = subprocess.Popen(
            ["bash", "-c", line, find_chromium(), *FLAGS, f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for descriptor in (read_commands, write_answers, *high):
            os.close(descriptor)
        target = self.send("Target.createTarget", session=None, url="about:blank")["targetId"]
        self.session = None
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        try:
            self.send("Browser.close", session=None)
            self.process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for descriptor in (self.commands, self.answers):
            os.close(descriptor)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- the protocol -------------------------------------------------------------------------------------------------

    def send(self, method, session="page", **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session == "page" and getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        wanted = self.number
        while True:
            answer = self.receive()
            if answer.get("id") == wanted:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def receive(self):
        until = time.monotonic() + self.patience
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise ConnectionError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        self.note(message)
        return message

    def note(self, message):
        method, said = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(said["exceptionDetails"].get("text", "exception"))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
            self.errors.append(str([part.get("value") for part in said["args"]]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    # -- what tests do ------------------------------------------------------------------------------------------------

    def open(self, path, width=1000, height=900, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.errors.clear()
        self.requests.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        # every figure is drawn once it has a canvas or a drawing inside
        self.until("document.readyState === 'complete'")
        self.until("[...document.querySelectorAll('.plotly-graph-div')].every(e => e.querySelector('svg.main-svg'))")

    def evaluate(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression):
        """Wait in the page, frame by frame, until an expression is true."""
        done = self.evaluate(
            "new Promise(resolve => {const end = performance.now() + 30000; const look = () => {"
            f"if ({expression}) resolve(true); else if (performance.now() > end) resolve(false);"
            "else setTimeout(look, 20);}; look();})"
        )
        assert done, f"never came true: {expression}"

    def drag(self, x, y, by_x, by_y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for k in range(1, 11):
            self.send(
                "Input.dispatchMouseEvent", type="mouseMoved", x=x + by_x * k / 10, y=y + by_y * k / 10, button="left",
                buttons=1,
            )  # fmt: skip
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x + by_x, y=y + by_y, button="left", clickCount=1)

    def screenshot(self, path):
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
