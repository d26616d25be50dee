"""One quorum node as `services/quorum/__main__` puts it together: driver, disk, listeners, peers, servicers, cleaner.

Only the clock, the event loop, the wait for the disk and the network are virtual. It dies between any two steps.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from kraft import Uuid
from kraft.service.quorum_pb2 import CreateSnapshotRequest
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server, add_RaftClientServicer_to_server
from quorate.errors import ApiError, Corrupt
from quorate.nouns import NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft.core import Raft
from quorate.raft.log import LogView
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, Message
from quorate.raft.ready import Ready
from quorate.raft.roles import Role
from quorate.raft.settings import RaftSettings
from quorate.raft.voters import ListenerEndpoint as RaftEndpoint
from quorate.raft.voters import Voter as RaftVoter
from quorate.raft.voters import VoterSet
from quorate.runtime.telemetry.tracing import OFF
from quorate.storage.meta_properties import MetaProperties, write_meta_properties
from quorate.storage.names import BOOTSTRAP_ID, PARTITION_DIRECTORY
from services.quorum.checkpoints import CheckpointVoters, StateSnapshot
from services.quorum.cleaner import Cleaner
from services.quorum.config import OBSERVER_WAIT_MS
from services.quorum.controller_presence import ControllerPresence
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints, static_voters
from services.quorum.peers import Peers
from services.quorum.recorder import Recorder
from services.quorum.servicer import PeerServicer, RaftClientService
from services.quorum.tracing import AppendTracer
from tests.sim_driver.clock import WALL_MS, NodeClock
from tests.sim_driver.disk import (
    SEGMENT_BYTES,
    SEGMENT_MS,
    Injected,
    VirtualFlusher,
    WatchedDisk,
    copy_of,
    damage,
    put_back,
)
from tests.sim_driver.loop import Killed, Life, context_of
from tests.sim_driver.states import state_at
from tests.sim_driver.wire import Server

if TYPE_CHECKING:
    from tests.sim_driver.world import World

PORT: Final = 9093
LISTENER: Final = "CONTROLLER"
CLUSTER_ID: Final = "c"
RELEASE_MS: Final = 2_000
ABSENCE_MS: Final = 1_000
PRESENCE_MS: Final = 5_000
CREATE_SNAPSHOT: Final = "/kraft.service.RaftClient/CreateSnapshot"
NOTHING: Final = OffsetAndEpoch(epoch=0, offset=0)
CLEANS_EVERY: Final = 8
"""Fetches; besides its own interval."""
OLDER_MAX: Final = 5
"""An older copy is of one of so many lives before."""


class Watched(Recorder):
    """Tells of each turn that was carried out."""

    def __init__(self, told: Callable[[Ready], None]) -> None:
        super().__init__()
        self._tell = told

    def carried_out(self, ready: Ready, role: Role, *, leo: Offset) -> None:
        super().carried_out(ready, role, leo=leo)
        self._tell(ready)


class Node:
    """One node over all its lives. `driver` and `disk` are those of the present one; `promised` what damage took."""

    def __init__(self, world: World, node_id: NodeId, directory: Path) -> None:
        self.id = node_id
        self.host = node_id
        self.port = PORT
        self.key = ReplicaKey(node_id, Uuid(world.stream(f"directory{node_id}").randbytes(16)))
        self.clock = NodeClock(world.loop.clocks[node_id], zero_ms=1_000 * node_id)
        self.driver: QuorumDriver | None = None
        self.disk: WatchedDisk | None = None
        self.flusher: VirtualFlusher | None = None
        self.life: Life | None = None
        self.life_count = 0
        self.fuse = 0
        """After so many steps more, it dies; 0 for never."""
        self.full_at: tuple[str, ...] = ()
        """Where there is no room: in the log, or only where room for more of it is asked for."""
        self.promised: OffsetAndEpoch | None = None
        self.is_damaged = False
        """Until it has come again as far as it thinks it was, which may be further than it had promised."""
        self.durable = NOTHING
        """Of the life before, while there is none."""
        self._acknowledged = NOTHING
        """How far others, or itself, knew its log as flushed."""
        self._homes: list[Path] = []
        """The directories of earlier lives with this disk, each as it was left."""
        self.wiped_at: OffsetAndEpoch | None = None
        """How far its earlier disk was durable, while that is lost and this id does not vote again."""
        self._world = world
        self._random: Random = world.stream(f"node{node_id}")
        self._chores: Random = world.stream(f"chores{node_id}")
        self._home = directory
        self._stopping: asyncio.Event | None = None

    @property
    def address(self) -> str:
        return f"{self.endpoint.host}:{self.port}"

    @property
    def endpoint(self) -> RaftEndpoint:
        """Where it listens in this life, or will in the next."""
        return RaftEndpoint(LISTENER, f"node{self.id}", self.port)

    @property
    def voter(self) -> RaftVoter:
        """What an administrator says of it."""
        return RaftVoter(key=self.key, endpoints=(self.endpoint,))

    @property
    def is_up(self) -> bool:
        return self.driver is not None

    # A life.

    def boot(self) -> None:
        """A process begins."""
        if self.life is not None:
            return
        self.life_count += 1
        self.life = life = Life(self, f"node {self.id}.{self.life_count}")
        context = context_of(life)
        self._world.loop.create_task(self._live(life), context=context)

    async def _live(self, life: Life) -> None:
        try:
            await self._serve(life)
        except Killed:
            raise
        except BaseException as error:
            self.fail(life, error)

    async def _serve(self, life: Life) -> None:
        configured, bootstrap = self._world.configured(self.id)
        disk = self._opened(static_voters(configured))
        view = disk.view()
        endpoints = NodeEndpoints(configured, bootstrap, view.voters)
        driver = self._driver_of(disk, view, endpoints)
        presence = ControllerPresence(driver, absence_timeout_ms=ABSENCE_MS, presence_timeout_ms=PRESENCE_MS)
        peer = PeerServicer(driver, endpoints, cluster_id=CLUSTER_ID, node_id=self.id)
        server = Server(life, self.host)
        add_QuorumServicer_to_server(peer, server)  # type: ignore[arg-type]
        add_RaftClientServicer_to_server(RaftClientService(driver, presence), server)  # type: ignore[arg-type]
        self._world.network.listen(self.address, server)
        cleaner = Cleaner(driver, self._world.plan.cleaning)
        self._meddle_with_fetches(life, driver, cleaner, server)  # before anybody is given `hear`
        self._stopping = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            peers = Peers(
                endpoints,
                tasks,
                heard=driver.hear,
                failed=driver.fail,
                lost=driver.lose,
                refused=driver.recorder.refused,
                request_timeout_ms=RaftSettings().request_timeout_ms,
                listeners=(self.endpoint,),
            )
            driver.start(peers, lambda error: self.fail(life, error))
            alone = tasks.create_task(presence.run())
            cleaning = tasks.create_task(cleaner.run())
            await self._stopping.wait()
            alone.cancel()
            cleaning.cancel()
            driver.resign(driver.core.role.epoch)
            await self._released(driver)
            driver.stop()
            await peers.close()
            await peer.close()
            disk.close()
            self._world.note(self.id, "stopped", disk.log.leo)
            disk.durable = disk.log.leo
            self._end(is_power_cut=False)

    def format(self, voters: VoterSet) -> None:
        """Leave the first voters in its directory, as `quorate storage format` does (KIP-853)."""
        partition = self._home / PARTITION_DIRECTORY
        partition.mkdir(parents=True)
        first = StateSnapshot(partition, BOOTSTRAP_ID, WALL_MS, CheckpointVoters(voters, 1))
        first.finish().close()

    def _opened(self, static: VoterSet) -> WatchedDisk:
        self._home.mkdir(exist_ok=True)
        meta = MetaProperties(cluster_id=CLUSTER_ID, node_id=self.id, directory_id=self.key.directory_id)
        write_meta_properties(self._home, meta)
        disk = WatchedDisk(
            self._home,
            static=static,
            segment_bytes=SEGMENT_BYTES,
            segment_ms=SEGMENT_MS,
            recovers=True,
        )
        self._world.note(self.id, "starts", disk.log.leo, [str(each.damage.reason) for each in disk.salvaged])
        self._world.checker.opened(self, disk)
        return disk

    def _driver_of(self, disk: WatchedDisk, view: LogView, endpoints: NodeEndpoints) -> QuorumDriver:
        world, plan = self._world, self._world.plan
        core = Raft(
            node=self.key,
            cluster_id=CLUSTER_ID,
            log=view,
            election=disk.election(),
            random=world.stream(f"core{self.id}/{self.life_count}"),
            now_ms=self.clock.monotonic_ms(),
            settings=RaftSettings(
                commit_wait_ms=plan.commit_wait_ms,
                observer_wait_ms=OBSERVER_WAIT_MS,
                fetch_max_bytes=plan.fetch_bytes,
                snapshot_max_bytes=plan.chunk_bytes,
                auto_join_enable=world.joins(self.id),
            ),
            bootstrap=endpoints.bootstrap,
            endpoints=(self.endpoint,),
            recover_to=disk.damaged_to,
        )
        self.flusher = VirtualFlusher(world.loop, disk, world.flush_ms, self._flush_fails)
        tracer = AppendTracer(OFF, node_id=self.id)
        driver = QuorumDriver(core, disk, self.clock, tracer, append_linger_ms=plan.linger_ms, flusher=self.flusher)
        driver.recorder = Watched(lambda ready: world.checker.carried_out(self, ready))
        self.disk, self.driver = disk, driver
        return driver

    async def _released(self, driver: QuorumDriver) -> None:
        until_ms = driver.now_ms + RELEASE_MS
        while not driver.core.is_released and driver.now_ms < until_ms:  # noqa: ASYNC110  # as services/quorum has it
            await asyncio.sleep(RELEASE_MS / 100_000)

    def _meddle_with_fetches(self, life: Life, driver: QuorumDriver, cleaner: Cleaner, server: Server) -> None:
        """The cleaner's time may come when a fetch was heard, and its turn is not carried out yet; a snapshot, too."""
        hear = driver.hear

        def heard(message: Message) -> None:
            if isinstance(message, FetchResponse) and self._world.plan.snapshot_permille:
                self._snapshot_with(message, server)
            if isinstance(message, FetchRequest | FetchSnapshotRequest) and self._chores.randrange(CLEANS_EVERY) == 0:
                self._world.loop.call_soon(clean)
            hear(message)

        def clean() -> None:
            if self.life is life and self.driver is driver:
                before = driver.core.log.start
                try:
                    cleaner.clean()
                except Exception as error:
                    self.fail(life, error)
                else:
                    if driver.core.log.start > before:
                        self._world.fired("cleaned with a fetch")

        driver.hear = heard  # type: ignore[method-assign]

    def _snapshot_with(self, answer: FetchResponse, server: Server) -> None:
        """A snapshot of what this answer brings and commits, from a controller that has been ahead of its node."""
        ends = [each.end_offset for each in answer.batches if each.end_offset <= answer.high_watermark]
        checker = self._world.checker
        if not ends or not checker.ends_at(ends[-1]) or self._chores.randrange(2):
            return
        end, take = ends[-1], server.methods[CREATE_SNAPSHOT].stream_unary

        async def pieces() -> AsyncIterator[CreateSnapshotRequest]:
            values = state_at(checker, end)
            yield CreateSnapshotRequest(end_offset=end, epoch=checker.epoch_before(end), values=values)
            yield CreateSnapshotRequest()

        async def ask() -> None:
            try:
                await take(pieces(), None)
            except ApiError as refused:
                self._world.note(self.id, "no snapshot with a fetch", refused.message)
            except Exception as error:
                self.fail(server.life, error)
            else:
                self._world.fired("snapshot with a fetch")

        self._world.loop.create_task(ask())

    def _flush_fails(self) -> bool:
        if self._world.is_healed or self._random.randrange(1_000) >= self._world.plan.flush_fails_permille:
            return False
        self._world.fired("S-17")
        return True

    def fail(self, life: Life, error: BaseException) -> None:
        """It cannot go on: a disk that fails, or a fault of ours."""
        if life.is_over:
            return
        if is_of_the_disk(error):
            self.crash(f"{error!r}", is_power_cut=True)
        else:
            self._world.failed(life, error)

    # Its end.

    def step(self, what: str) -> None:
        """It does something that a crash may come before. Raises Killed."""
        if self.fuse:
            self.fuse -= 1
            if self.fuse == 0:
                self._world.fired("S-10")
                self.crash(f"killed at {what}", is_power_cut=False)
                raise Killed

    def crash(self, why: str, *, is_power_cut: bool) -> None:
        """The process is gone, at whatever it was."""
        if self.life is None:
            return
        self._world.note(self.id, why)
        disk = self.disk
        self._end(is_power_cut=is_power_cut)
        if disk is not None:
            self._world.network.after_ms(0, disk.abandon)

    def stop(self) -> None:
        """Asked to end."""
        if self._stopping is not None:
            self._world.note(self.id, "is to stop")
            self._stopping.set()

    def _end(self, *, is_power_cut: bool) -> None:
        life, world = self.life, self._world
        assert life is not None
        life.is_over = True
        durable = self.disk.durable if self.disk is not None and is_power_cut else None
        if self.disk is not None:
            self.durable = self.disk.last
            if self.driver is not None:
                self._acknowledged = self.disk.end_at(self.driver.core.log.flushed)
            world.clean_count += self.disk.clean_count
        self.life, self.fuse, self._stopping = None, 0, None
        if self.driver is not None:
            self.driver.stop()  # it does nothing any more, though others hold it
        self.disk, self.driver, self.flusher = None, None, None
        home = self._home.with_name(f"{self.id}-{self.life_count}")
        lost = copy_of(self._home, home, self._random, durable=durable)
        self._homes.append(self._home)
        self._home = home
        if lost:
            world.fired("S-15")
            world.note(self.id, lost)
        world.crash_count += 1
        world.network.lose(life)
        world.network.after_ms(world.down_ms(), self.boot)

    def abandon(self) -> None:
        """The world is over."""
        if self.driver is not None:
            self.driver.stop()
        if self.disk is not None:
            self.disk.abandon()
            self._world.clean_count += self.disk.clean_count

    def damage(self) -> bool:
        """While it is down: spoil its log. Its promises are kept in mind by the checker."""
        if self.life is not None:
            return False
        row, found, promised = self._put_back() or (*damage(self._home, self._random), self.durable)
        if row:
            self.promised, self.is_damaged = promised, True
            self._world.note(self.id, "damaged", found, "promised", promised)
            self._world.fired(row)
        return bool(row)

    def _put_back(self) -> tuple[str, str, OffsetAndEpoch] | None:
        """Now and then: an older copy of its partition directory comes back, with an older log, epoch and vote."""
        older = [each for each in self._homes[-OLDER_MAX:] if (each / PARTITION_DIRECTORY).is_dir()]
        if not older or self._chores.randrange(3):
            return None
        home = self._chores.choice(older)
        put_back(home, self._home)
        return "S-21 older", f"older copy {home.name}", self._acknowledged

    def wipe(self) -> None:
        """While it is down: another, empty disk takes the place of its own, under another directory id."""
        assert self.life is None, self.id
        shutil.rmtree(self._home)
        self.wiped_at, self.durable, self._acknowledged = self.durable, NOTHING, NOTHING
        self._homes.clear()
        self.key = ReplicaKey(self.id, Uuid(self._random.randbytes(16)))
        self._world.note(self.id, "is wiped", self.wiped_at)


def is_of_the_disk(error: BaseException | None) -> bool:
    """Does it come of a fault that was put there, which a node is to end with? No other OSError may pass for one."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_of_the_disk, error.exceptions))
    if isinstance(error, Corrupt):  # it names the file, and is raised anew for that
        return is_of_the_disk(error.__context__)
    return error is not None and (isinstance(error, Injected) or is_of_the_disk(error.__cause__))
