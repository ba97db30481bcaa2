"""`tailbit run --config` as a process of its own, over tables in one folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
from deltalake import DeltaTable

from support.shipped import covered
from support.tables import three_commits
from support.waiting import HANG_S, wait_until
from tailbit.streaming.many.states import states_of
from tailbit.tables.storage import LocalStorage


class Application:
    """The command over one configuration; all that it says goes to one file."""

    def __init__(self, folder: Path, said: str = "said.txt", release: Path | None = None) -> None:
        """`release`: a folder with the packages of another release; by default this one runs."""
        self.environment = os.environ if release is None else os.environ | {"PYTHONPATH": str(release)}
        self.folder, self.file, self.said = folder, folder / "tailbit.toml", folder / said
        self.process: subprocess.Popen[bytes] | None = None
        self.read = 0

    @classmethod
    def of_three_commits(cls, folder: Path, *names: str) -> Application:
        """Tables of three commits each and their configuration, and nothing started yet."""
        for name in names:
            three_commits(str(folder / name))
        made = cls(folder)
        made.configure(*names)
        return made

    def table(self, name: str) -> str:
        return str(self.folder / name)

    def configure(self, *names: str, more: str = "", **of_table: str) -> None:
        """Write the configuration; `of_table`: more lines of the section of a table."""
        sections = [
            f'[[table]]\npath = "{name}"\ncolumns = ["v"]\n{of_table.get(name, "")}\n' for name in names
        ]
        text = f'[application]\ncheckpoint = "{self.folder}/checkpoint"\nui = false\n'
        text += f'metrics = "127.0.0.1:0"\n{more}\n'
        self.file.write_text(text + "".join(sections))

    def start(self, *options: str) -> None:
        with self.said.open("ab") as to:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tailbit.cli", "run", "--config", str(self.file), *options],
                stdout=to,
                stderr=to,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(HANG_S)

    def death(self) -> str | None:
        assert self.process is not None
        return None if self.process.poll() is None else self.said.read_text()

    def state(self, name: str) -> str:
        return str(states_of(LocalStorage(f"{self.folder}/checkpoint")).get(name, {}).get("state"))

    def wait_for_state(self, name: str, state: str) -> None:
        wait_until(lambda: self.state(name) == state, self.death)

    def wait_for_head(self, *names: str) -> None:
        """Wait until the indexes cover the heads of their tables."""
        heads = {self.table(name): DeltaTable(self.table(name)).version() for name in names}
        wait_until(lambda: {table: covered(table) for table in heads} == heads, self.death)

    def wait_for_words(self, *words: str) -> None:
        """Wait until the command has said these words, after those that it was waited for before."""
        for word in words:
            wait_until(partial(self._has_said, word), self.death)
            self.read = self.said.read_text().find(word, self.read) + len(word)

    def _has_said(self, word: str) -> bool:
        return self.said.read_text().find(word, self.read) >= 0

    def end_of_test(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def url(self) -> str:
        """Where the pages of the application are."""
        return str(re.findall(r"metrics: (http://\S+)/metrics", self.said.read_text())[-1])

    def page(self, name: str) -> str:
        """A page of the application, by HTTP; an answer of 503 too."""
        try:
            with urlopen(f"{self.url()}/{name}", timeout=HANG_S) as answer:
                return str(answer.read().decode())
        except HTTPError as refused:
            return refused.read().decode()

    def processes(self) -> list[psutil.Process]:
        """The command and all that it started."""
        assert self.process is not None
        command = psutil.Process(self.process.pid)
        return [command, *command.children(recursive=True)]

    def kill(self) -> None:
        """SIGKILL to the command and to all that it started."""
        assert self.process is not None
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(HANG_S)
