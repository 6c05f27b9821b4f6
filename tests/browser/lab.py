"""A notebook in JupyterLab, driven by mouse and keyboard as a student does, and read back from its model."""

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
# the notebook's model, which has the cells outside of the window too
CELLS = """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells, cell => {
    const {cell_type, source, outputs, metadata} = cell.toJSON();
    return {cell_type, id: cell.id, source, outputs, tags: metadata.tags ?? []};
})"""
# cheap, as it is asked often: `CELLS` would copy every image
FINISHED_ABOVE = """id => {
    const {content, sessionContext} = window.jupyterapp.shell.currentWidget;
    const cells = Array.from(content.model.cells), outputs = cell => Array.from(cell.sharedModel.outputs);
    const code = cells.slice(0, cells.findIndex(cell => cell.id === id)).filter(cell => cell.type === 'code');
    return code.some(cell => outputs(cell).some(output => output.output_type === 'error')) ||
        sessionContext.kernelDisplayStatus === 'idle' && code.every((cell, i) => cell.executionCount === i + 1);
}"""
COUNT = """id => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
    .find(cell => cell.id === id).executionCount"""
STATUS = "() => window.jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus"
ASK = """async expression => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const request = {code: '', silent: true, user_expressions: {asked: `__import__("json").dumps(${expression})`}};
    const reply = await kernel.requestExecute(request).done;
    const {asked} = reply.content.user_expressions;
    return asked.status === 'ok' ? asked.data['text/plain'] : null;
}"""
SHOW = """id => {
    const {content} = window.jupyterapp.shell.currentWidget;
    const index = content.widgets.findIndex(cell => cell.model.id === id);
    content.activeCellIndex = index;
    return content.scrollToItem(index, 'start');
}"""


class Server:
    """JupyterLab on the loopback interface, started in `folder`, without this machine's settings."""

    def __init__(self, folder: Path):
        self.token = secrets.token_hex(16)
        own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
        own |= {"JUPYTER_TOKEN": self.token, "IPYTHONDIR": str(folder / "ipython"), "OMP_NUM_THREADS": "1"}
        own["JUPYTER_CONFIG_PATH"] = str(ROOT / ".jupyter")  # as make lab does
        own["JUPYTERLAB_SETTINGS_DIR"] = str(folder / "settings")
        log = folder / "jupyter.log"
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
        command += ["--allow-root", "--LabApp.expose_app_in_browser=True"]
        with log.open("w") as stream:
            self._process = subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=stream, stderr=stream)
        self.url = wait_until_it_listens(self._process, folder / "runtime", log)["url"]

    def close(self) -> None:
        stop(self._process)


def wait_until_it_listens(process: subprocess.Popen, runtime: Path, log: Path, timeout_s: float = 120.0) -> dict:
    """What a started JupyterLab says of itself in its folder `runtime`, and that `file`; RuntimeError with its log."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            with suppress(OSError, ValueError):  # it may be half written, and is there before the server listens
                info = json.loads(file.read_text()) | {"file": file}
                urllib.request.urlopen(f"{info['url']}api/status?token={info['token']}", timeout=10).close()
                return info
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start: {log.read_text()[-2000:]}")


def stop(process: subprocess.Popen) -> None:
    """End a JupyterLab; on a busy machine it can wait for ever, at its very end, for a thread of AnyIO."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    process.kill()
    process.wait()


class Notebook:
    """An open chapter, `name` without its suffix, on a Playwright page."""

    def __init__(self, page, server: Server, name: str):
        self.page = page
        page.goto(f"{server.url}lab/tree/notebooks/{name}.ipynb?reset&token={server.token}")
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell", timeout=60_000)
        page.wait_for_function(f"({STATUS})() === 'idle'", timeout=60_000)

    def cells(self) -> list[dict]:
        return self.page.evaluate(CELLS)

    def ask(self, expression: str) -> object:
        """The value of an expression in the kernel, without a cell."""
        reply = self.page.evaluate(ASK, expression)
        return None if reply is None else json.loads(reply.strip("'").replace("\\\\", "\\"))

    def run_above(self, cell_id: str, timeout_s: float) -> None:
        """Menu Run, Run All Above Selected Cell; returns after the last of them or the first that raises."""
        self.show(cell_id)
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Above Selected Cell", exact=True).click()
        self.page.wait_for_function(FINISHED_ABOVE, arg=cell_id, polling=250, timeout=1000 * timeout_s)

    def errors(self) -> list[str]:
        """The errors in the cells' outputs."""
        outputs = [output for cell in self.cells() for output in cell["outputs"] or []]
        return [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]

    def show(self, cell_id: str):
        """Scroll a cell into view and return it as a locator."""
        self.page.evaluate(SHOW, cell_id)
        self.page.wait_for_timeout(300)
        return self.page.locator(".jp-Notebook .jp-Cell.jp-mod-active")

    def run_again(self, cell_id: str):
        """Run one cell with Ctrl+Enter and return it as a locator."""
        shown = self.show(cell_id)
        shown.locator(".jp-InputPrompt:visible").first.click()  # a hidden cell has no editor
        before = self.page.evaluate(COUNT, cell_id)
        self.page.keyboard.press("Control+Enter")
        ran = f"([id, before]) => ({COUNT})(id) > before && ({STATUS})() === 'idle'"
        self.page.wait_for_function(ran, arg=[cell_id, before], timeout=60_000)
        assert self.errors() == []
        return shown

    def close(self) -> None:
        """Shut the kernel down, as File > Close and Shut Down Notebook does."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
