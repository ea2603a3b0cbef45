"""Whether nodes find each other, and if not, whether domain, multicast or localhost-only is at fault."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass

from cue_core.errors import CueError

GROUP = "239.255.0.1"  # of DDS discovery (RTPS 2.2, 9.6.1.4.1)
PORT = 7396  # below the ports of every domain, which begin at 7400
_HIGHEST_DOMAIN = 232  # port 7400 + 250 * domain must stay below 65536


@dataclass(frozen=True)
class Setting:
    """What decides whom a node finds.

    Attributes:
        domain: ``ROS_DOMAIN_ID``, as it is written.
        reach: ``ROS_AUTOMATIC_DISCOVERY_RANGE``: SUBNET, LOCALHOST, OFF or SYSTEM_DEFAULT.
        localhost_only: ``ROS_LOCALHOST_ONLY``, the old form of it.
        peers: ``ROS_STATIC_PEERS``.
        rmw: ``RMW_IMPLEMENTATION``; empty = the default.
    """

    domain: str = "0"
    reach: str = "SUBNET"
    localhost_only: bool = False
    peers: str = ""
    rmw: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Setting:
        """Read it from environment variables."""
        return cls(
            domain=environment.get("ROS_DOMAIN_ID") or "0",
            reach=(environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE") or "SUBNET").upper(),
            localhost_only=environment.get("ROS_LOCALHOST_ONLY") == "1",
            peers=environment.get("ROS_STATIC_PEERS", ""),
            rmw=environment.get("RMW_IMPLEMENTATION", ""),
        )

    def fault(self) -> str:
        """Return why no node at all can be found with it, or nothing."""
        if not self.domain.isdigit() or int(self.domain) > _HIGHEST_DOMAIN:
            return f"domain: ROS_DOMAIN_ID is {self.domain!r}, allowed is 0 to {_HIGHEST_DOMAIN}"
        if self.reach == "OFF":
            return "ROS_AUTOMATIC_DISCOVERY_RANGE is OFF, which forbids nodes to find each other"
        if self.reach not in ("SUBNET", "LOCALHOST", "SYSTEM_DEFAULT"):
            return f"ROS_AUTOMATIC_DISCOVERY_RANGE is {self.reach!r}, allowed is SUBNET, LOCALHOST, OFF, SYSTEM_DEFAULT"
        return ""

    @property
    def stays_home(self) -> bool:
        """True when nodes on other machines are not looked for."""
        return self.localhost_only or (self.reach == "LOCALHOST" and not self.peers)


def exchange(environment: Mapping[str, str], seconds: float) -> bool:
    """Tell whether a message passes between two processes that have this environment."""
    topic = f"cue_doctor_{secrets.token_hex(4)}"
    command = [sys.executable, "-m", "cue.discovery_node"]

    def start(role: str) -> subprocess.Popen[bytes]:
        words = [*command, role, topic, str(seconds)]
        return subprocess.Popen(words, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    talker, listener = start("talk"), start("listen")
    try:
        return listener.wait(seconds + 5) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        for process in (talker, listener):
            process.terminate()
        for process in (talker, listener):
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()


def multicast_passes(seconds: float = 1.0) -> bool:
    """Tell whether a packet to the discovery group comes back to this machine."""
    token = secrets.token_bytes(8)
    try:
        with closing(_group_receiver()) as receiver, closing(_socket()) as sender:
            sender.sendto(token, (GROUP, receiver.getsockname()[1]))
            return _receives(receiver, token, seconds)
    except OSError:
        return False


def check_here(environment: Mapping[str, str], seconds: float = 6.0) -> str:
    """Return what keeps two processes on this machine from finding each other; empty = nothing."""
    setting = Setting.of(environment)
    fault = setting.fault()
    if fault:
        return fault
    if exchange(environment, seconds):
        return ""
    if not setting.stays_home and not multicast_passes():
        return f"multicast: {GROUP} does not come back; allow it or set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
    home = {**environment, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_LOCALHOST_ONLY": "0"}
    if not setting.stays_home and exchange(home, seconds / 2):
        return "multicast: nodes find each other only with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
    other = {**home, "ROS_DOMAIN_ID": str((int(setting.domain) + 57) % 100)}
    if exchange(other, seconds / 2):
        return f"domain: nothing passes on domain {setting.domain}, but on others; choose another ROS_DOMAIN_ID"
    return "no message passes between two processes on this machine; is UDP on the loopback interface blocked?"


# --- Two machines -----------------------------------------------------------------------------------------------------


def answer(environment: Mapping[str, str], seconds: float, port: int = PORT) -> int:
    """Answer the checks of other machines for a while; return how many came."""
    count, end = 0, time.monotonic() + seconds
    with closing(_socket()) as receiver:
        receiver.bind(("", port))
        while True:
            ready, _, _ = select.select([receiver], [], [], max(end - time.monotonic(), 0.0))
            if not ready:
                return count
            data, sender = receiver.recvfrom(1024)
            if not data.startswith(b"cue-doctor "):
                continue
            count += 1
            receiver.sendto(json.dumps(asdict(Setting.of(environment))).encode(), sender)
            _, token, back = data.split(b" ")
            receiver.sendto(token, (GROUP, int(back)))


def check_peer(host: str, environment: Mapping[str, str], seconds: float = 3.0, port: int = PORT) -> str:
    """Return what keeps nodes here and on another machine, where ``answer`` runs, from finding each other.

    Raises:
        CueError: the name of the machine is not known.
    """
    here = Setting.of(environment)
    if here.fault():
        return f"here {here.fault()}"
    token = secrets.token_hex(8).encode()
    try:
        with closing(_group_receiver()) as group, closing(_socket()) as asker:
            asker.sendto(b"cue-doctor %s %d" % (token, group.getsockname()[1]), (host, port))
            ready, _, _ = select.select([asker], [], [], seconds)
            if not ready:
                return f"{host} does not answer on UDP port {port}: run 'cue doctor --answer' there, open the firewall"
            there = Setting(**json.loads(asker.recv(1024)))
            heard = _receives(group, token, seconds)
    except socket.gaierror as error:
        raise CueError(f"machine {host!r} is not known: {error.strerror}") from None
    except OSError as error:
        return f"{host} cannot be reached: {error.strerror}"
    return compare(here, there, host, heard)


def compare(here: Setting, there: Setting, host: str, multicast: bool) -> str:
    """Return what keeps nodes with two settings apart, given whether multicast passes between their machines."""
    if there.fault():
        return f"on {host} {there.fault()}"
    if here.domain != there.domain:
        return f"domain: ROS_DOMAIN_ID is {here.domain} here and {there.domain} on {host}; make them equal"
    for setting, place in ((here, "here"), (there, f"on {host}")):
        if setting.stays_home:
            return f"localhost-only: {place} nodes stay on their own machine; set ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET"
    if here.rmw != there.rmw:
        return f"RMW_IMPLEMENTATION is {here.rmw or 'the default'} here and {there.rmw or 'the default'} on {host}"
    if not multicast and not (here.peers and there.peers):
        return f"multicast: blocked between here and {host}; name the other machine in ROS_STATIC_PEERS on both"
    return ""


def _socket() -> socket.socket:
    result = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_UDP)
    result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return result


def _group_receiver() -> socket.socket:
    """Return a socket on a free port that has joined the discovery group."""
    result = _socket()
    result.bind(("", 0))
    membership = socket.inet_aton(GROUP) + socket.inet_aton("0.0.0.0")
    with suppress(OSError):  # no route for multicast: then nothing will come, which is the finding
        result.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    return result


def _receives(receiver: socket.socket, token: bytes, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([receiver], [], [], max(end - time.monotonic(), 0.0))
        if not ready:
            return False
        if receiver.recv(1024) == token:
            return True


def describe(environment: Mapping[str, str]) -> str:
    """Return the setting in words."""
    setting = Setting.of(environment)
    reach = "this machine only" if setting.stays_home else "the network"
    return f"domain {setting.domain}, {reach}, {setting.rmw or os.environ.get('ROS_DISTRO', '') or 'default'}"
