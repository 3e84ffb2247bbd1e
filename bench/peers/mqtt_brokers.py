"""MQTT brokers of others, for `bench.mqtt`: Mosquitto from the distribution, and amqtt from PyPI. Both ask for no login, which is in their favour."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from typing import ClassVar

from bench.servers import Maker, Server, program


class Broker(Server):
    """`login`: user name and password of CONNECT."""

    login: tuple[str, str] | None = None
    install: ClassVar[str]
    config: ClassVar[str]  # name of its file

    @property
    def mqtt_port(self) -> int:
        return self.port

    def requests(self) -> dict[str, Maker]:
        return {}

    def settings(self) -> str:
        raise NotImplementedError

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / self.config).write_text(self.settings())

    @classmethod
    def version(cls) -> str:
        raise NotImplementedError


class Mosquitto(Broker):
    name = "mosquitto"
    durability = "in memory"
    install = "apt-get install mosquitto"
    config = "mosquitto.conf"
    PROGRAM = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    persistence: ClassVar[str] = "persistence false\n"

    @classmethod
    def available(cls) -> bool:
        return cls.PROGRAM is not None

    @classmethod
    def version(cls) -> str:
        help_text = subprocess.run([str(cls.PROGRAM), "-h"], capture_output=True, text=True, check=False).stdout
        return help_text.partition("\n")[0].removeprefix("mosquitto version ")

    def settings(self) -> str:
        user = pwd.getpwuid(os.getuid()).pw_name  # as root it would take another one, who may not write here
        return (
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser {user}\nlog_dest stderr\nlog_type error\nlog_type warning\n"
            f"persistence_location {self.data}/\n{self.persistence}"
        )

    def command(self) -> list[str]:
        return [str(self.PROGRAM), "-c", str(self.data / self.config)]


class SavingMosquitto(Mosquitto):
    """Writes its whole state into a file after each change."""

    name = "mosquitto-saving"
    durability = "in memory, saved later"
    persistence = "persistence true\nautosave_on_changes true\nautosave_interval 1\n"


class Amqtt(Broker):
    name = "amqtt"
    durability = "in memory"
    install = "pip install amqtt, here or in an environment of its own whose bin/ is on the PATH"
    config = "amqtt.yaml"

    @classmethod
    def available(cls) -> bool:
        return program("amqtt") is not None

    @classmethod
    def version(cls) -> str:
        return subprocess.run([str(program("amqtt")), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def settings(self) -> str:
        """Without its plugins that log each event and each packet."""
        return (
            f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{self.port}\n"
            "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
        )

    def command(self) -> list[str]:
        return [str(program("amqtt")), "-c", str(self.data / self.config)]
