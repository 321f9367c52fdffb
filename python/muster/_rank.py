"""This process as a rank: its socket to the agent, and the thread that sends and receives there (docs/protocol.md).

A send wakes the agent, which takes tens of microseconds. So the thread sends new steps and sections only ten times a
second, and drops them if the agent does not keep up. Other reports are sent at once, and kept until the agent takes
them.
"""

import atexit
import collections
import contextlib
import errno
import faulthandler
import json
import os
import select
import signal
import socket
import threading
import time

_TICK = 0.1  # seconds; the agent reports to the launcher at the same rate
_TICKS_A_BEAT = 10
_RETRY = 0.02
_LAST_WORDS = 5.0
_MOST_KEPT = 256
_MOST_METRICS = 4096  # datagrams; more than a training reports while its agent is busy
_VALUES_A_DATAGRAM = 16  # so that it stays below 4 KiB
_MOST_NAME_LETTERS = 128
_MAY_BE_TAKEN_LATER = (errno.EAGAIN, errno.EINTR, errno.ENOBUFS, errno.ENOMEM)

# Reentrant: a signal handler may report while the same thread is reporting.
_lock = threading.RLock()
_mine = None  # the Rank; False: this process does not speak for a rank
_CLAIM = "MUSTER_PYTHON_PROCESS"  # the process that speaks for the rank, and its agent's socket


def mine():
    """The Rank that this process speaks for, or a false value."""
    rank = _mine
    return rank if rank is not None else _begin()


def _begin():
    global _mine
    with _lock:
        if _mine is None:
            _mine = _rank_of(os.environ) or False
        return _mine


def _rank_of(environment):
    path = environment.get("MUSTER_SOCKET", "")
    claim = f"{os.getpid()} {path}"
    other = environment.get(_CLAIM, claim)
    if not path or (other != claim and other.endswith(" " + path)):
        return None
    try:
        rank = Rank(path, environment)
    except (OSError, KeyError, ValueError, RuntimeError):  # RuntimeError: cannot start another thread
        return None
    environment[_CLAIM] = claim
    return rank


def _forked():
    """A forked child is not the rank. It needs a new lock, because a thread that the child lacks may hold the old one."""
    global _mine, _lock
    _lock = threading.RLock()
    if _mine:
        _mine.close_copy()
    _mine = None if _CLAIM not in os.environ else False


os.register_at_fork(after_in_child=_forked)


class _Open:
    """A section, or a wait for other ranks (name ""), that has not ended."""

    __slots__ = ("name", "since")

    def __init__(self, name, since):
        self.name, self.since = name, since


class Rank:
    def __init__(self, path, environment):
        rank, attempt = int(environment["RANK"]), int(environment["MUSTER_ATTEMPT"])
        resume = environment.get("MUSTER_RESUME_STEP")
        self._resume = int(resume) if resume else None
        self._is_first = rank == 0
        self._head = f'{{"v":1,"rank":{rank},"attempt":{attempt},"pid":{os.getpid()},"type":'
        self._lock = threading.RLock()
        self._newest = -1  # step
        self._asked = False  # whether the program asked for the resume step before its first step
        self._busy = None  # milliseconds, of the newest step
        self._numbers = {}  # loss and samples of the newest step
        self._group = ""  # of the newest step
        self._step_told = True
        self._step_ended = None
        self._open = []  # sections, the innermost last
        self._told_open = []  # the open sections that the agent knows
        self._away = 0.0  # seconds of this step in sections or waiting
        self._away_in = None  # the outermost _Open that counts into it
        self._waited = False
        self._offers_preemption = self._noticed = self._greeted = self._ended = False
        self._kept_lock = threading.RLock()
        self._kept = collections.deque(maxlen=_MOST_KEPT)
        self._metrics = collections.deque(maxlen=_MOST_METRICS)  # apart, so that they displace no other report
        self._metric_steps = {}  # the last step of each name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # any address, for the agent's orders
        self._socket.connect(path)
        self._socket.setblocking(False)
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_out, False)
        os.set_blocking(self._wake_in, False)
        self._heart = threading.Thread(target=self._beat, name="muster-heart", daemon=True)
        self._heart.start()
        atexit.register(self._end)

    # ---- Reports of the program

    def step(self, number, busy_ms, group="", numbers=None):
        now = time.monotonic()
        # The agent would treat all other letters as equal.
        group = group.encode("ascii", "backslashreplace").decode()[:_MOST_NAME_LETTERS]
        with self._lock:
            if number is None:
                number = (self._newest if self._newest >= 0 else self._resume if self._asked and self._resume else 0) + 1
            self._newest, self._step_told, self._group, self._numbers = number, False, group, numbers or {}
            self._busy = busy_ms if busy_ms is not None else self._busy_ms(now)
            self._step_ended, self._away, self._away_in, self._waited = now, 0.0, None, False
            asked, self._asked = self._asked, False
        if asked:
            self._resumed_before(number)

    def _busy_ms(self, now):
        if not self._waited or self._step_ended is None:
            return None
        return max(0.0, (now - self._step_ended - self._away) * 1000)

    def _resumed_before(self, first):
        """Reports the resume step of a rank that only asked for it, judging by its first step."""
        if self._is_first and self._resume is not None:
            self._keep("resumed", step=self._resume if first > self._resume else max(first - 1, 0))

    def resume_step(self):
        with self._lock:
            self._asked = self._newest < 0
        return self._resume

    def resumed(self, number):
        with self._lock:
            self._newest, self._asked = number, False
        if self._is_first:
            self._keep("resumed", step=number)

    def committed(self, number, speaks_for_all):
        if speaks_for_all and not self._is_first:
            return
        self._tell_progress()
        self._keep("committed" if speaks_for_all else "saved", step=number)
        if self._noticed:  # the rank leaves next
            self._hand_over_within(_LAST_WORDS)

    def saving(self, number):
        if self._is_first:
            self._keep("saving", step=number)

    def report(self, values, step):
        names = list(values)
        with self._kept_lock:
            if step is None:
                step = 1 + max(self._metric_steps.get(name, 0) for name in names)
            self._metric_steps.update(dict.fromkeys(names, step))
            for first in range(0, len(names), _VALUES_A_DATAGRAM):
                part = {name: values[name] for name in names[first : first + _VALUES_A_DATAGRAM]}
                self._metrics.append(self._datagram("metric", {"step": step, "values": part}))
        self._hand_over_or_wake()

    def idle(self):
        self._tell_progress()  # a step reported after idle would count as a following step
        self._keep("idle")

    def preemption_noticed(self):
        if not self._offers_preemption:
            with self._lock:
                self._offers_preemption, self._greeted = True, False
                self._greet()
        return self._noticed

    def enter(self, name):
        now = time.monotonic()
        with self._lock:
            entry = _Open(name[:_MOST_NAME_LETTERS], now)
            self._open.append(entry)
            if self._away_in is None:
                self._away_in = entry
            if not name:
                self._waited = True
        return entry

    def leave(self, entry):
        now = time.monotonic()
        with self._lock:
            if entry in self._open:
                self._open.remove(entry)
            if entry is self._away_in:
                self._away += now - entry.since
                self._away_in = None

    # ---- The socket

    def _try(self, datagram):
        """Returns whether the datagram was sent. The training goes on after any error, such as a full socket or a lost agent."""
        try:
            self._socket.send(datagram.encode())
            return True
        except OSError:
            return False

    def _datagram(self, kind, fields):
        return self._head + json.dumps(kind) + "".join(f",{json.dumps(k)}:{json.dumps(v)}" for k, v in fields.items()) + "}"

    def _tell(self, kind, **fields):
        return self._try(self._datagram(kind, fields))

    def _keep(self, kind, **fields):
        with self._kept_lock:
            self._kept.append(self._datagram(kind, fields))
        self._hand_over_or_wake()

    def _hand_over_or_wake(self):
        if not self._hand_over():
            with contextlib.suppress(OSError):
                os.write(self._wake_in, b"!")

    def _hand_over(self):
        """Sends kept reports; returns whether none is left. Drops them if the agent is gone."""
        with self._kept_lock:
            for queue in (self._kept, self._metrics):
                while queue:
                    try:
                        self._socket.send(queue[0].encode())
                    except OSError as error:
                        if error.errno in _MAY_BE_TAKEN_LATER:
                            return False
                    queue.popleft()
        return True

    def _hand_over_within(self, limit):
        """Gives up when the agent has taken nothing for so long."""
        left, end = self._kept_count(), time.monotonic() + limit
        while not self._hand_over() and time.monotonic() < end:
            if self._kept_count() < left:
                left, end = self._kept_count(), time.monotonic() + limit
            time.sleep(_RETRY)

    def _kept_count(self):
        return len(self._kept) + len(self._metrics)

    # ---- The thread

    def _beat(self):
        # Only the program's own threads handle its signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        due, ticks = time.monotonic(), 0
        while not self._ended:
            now = time.monotonic()
            if now >= due:
                self._tell_progress()
                if ticks % _TICKS_A_BEAT == 0:
                    self._greet()
                    self._tell_heartbeat()
                ticks, due = ticks + 1, now + _TICK
            wait = due - now if self._hand_over() else min(due - now, _RETRY)
            for descriptor, events in poll.poll(max(wait, 0) * 1000):
                if descriptor == self._wake_out:
                    os.read(self._wake_out, 4096)
                elif not self._listen() and events & (select.POLLERR | select.POLLHUP):
                    poll.unregister(self._socket)  # the agent is gone

    def _greet(self):
        with self._lock:  # two threads send hello, and the newest counts
            if not self._greeted:
                self._greeted = self._tell("hello", text="stacks preemption" if self._offers_preemption else "stacks")

    def _tell_progress(self):
        """Reports new steps and sections."""
        with self._lock:
            open_now = [entry for entry in self._open if entry.name]
            for entry in reversed([entry for entry in self._told_open if entry not in open_now]):
                self._tell("section", name=entry.name, state="leave")
            if not self._step_told:
                self._step_told = True
                fields = dict(self._numbers) if self._busy is None else {"busy_ms": self._busy, **self._numbers}
                if self._group:
                    fields["group"] = self._group
                self._tell("step", step=self._newest, **fields)
            for entry in open_now:
                if entry not in self._told_open:
                    self._tell("section", name=entry.name, state="enter")
            self._told_open = open_now

    # The program may hold the interpreter's lock for long, so a late heartbeat is not a hang.
    def _tell_heartbeat(self):
        with self._lock:
            name, ms = "", 0
            if self._told_open:
                innermost = self._told_open[-1]
                name, ms = innermost.name, int((time.monotonic() - innermost.since) * 1000)
            self._tell("heartbeat", step=self._newest, section=name, section_ms=ms, may_be_late=True)

    def _listen(self):
        """Handles the agent's orders; returns whether there were any."""
        heard = False
        while True:
            try:
                order = json.loads(self._socket.recv(8192))
            except ValueError:
                continue
            except OSError:
                return heard
            heard = True
            kind = order.get("type") if isinstance(order, dict) else None
            if kind == "preempt":
                self._noticed = True
            elif kind == "dump" and isinstance(order.get("path"), str):
                self._write_stacks(order["path"])

    def _write_stacks(self, path):
        unfinished = path + ".new"  # the agent may be reading an older one
        try:
            with open(unfinished, "w") as file:
                faulthandler.dump_traceback(file)
            os.replace(unfinished, path)
        except OSError:
            return
        self._tell("stacks")

    # ---- Ends

    def _end(self):
        self._tell_progress()
        # A trial without its last value may count as failed.
        self._hand_over_within(_LAST_WORDS if self._noticed or self._metrics else _RETRY)
        self._ended = True
        with contextlib.suppress(OSError):
            os.write(self._wake_in, b"!")
        self._heart.join(_TICKS_A_BEAT * _TICK)

    def close_copy(self):
        """Closes the copied descriptors in a forked child."""
        atexit.unregister(self._end)
        self._socket.close()
        os.close(self._wake_out)
        os.close(self._wake_in)
