"""The pool of open workspaces: one opening, leases that hold, eviction and removal that wait."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lightrag.server.backend import (
    BusyError,
    NewDocument,
    WorkspaceBrokenError,
    WorkspaceLockedError,
    WorkspaceUnknownError,
)
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.pool import Pool

NAMES = ("a", "b", "c")


class CountingKeeper(EmbeddedKeeper):
    """The real keeper, which also remembers what is open and was opened."""

    def __init__(self, data):
        super().__init__(EmbeddedSettings(data, embedder="none"))
        self.open_now = []
        self.opened = []

    async def open(self, workspace):
        assert workspace not in self.open_now, "a second writer"
        backend = await super().open(workspace)
        self.open_now.append(workspace)
        self.opened.append(workspace)
        close = backend.close

        async def closed():
            await close()
            self.open_now.remove(workspace)

        backend.close = closed
        return backend


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@contextlib.asynccontextmanager
async def pooled(data, *, most_open=2, names=NAMES):
    """Yield a keeper, a pool over it and its clock."""
    keeper, clock = CountingKeeper(data), Clock()
    for name in names:
        await keeper.create(name)
    pool = Pool(keeper, most_open=most_open, idle_s=10, clock=clock)
    try:
        yield keeper, pool, clock
    finally:
        await pool.close()
        assert keeper.open_now == []
        await keeper.close()


async def test_many_who_come_at_once_share_one_opening(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, _):
        seen = []

        async def use():
            async with pool.lease("a") as backend:
                seen.append(backend)
                await anyio.lowlevel.checkpoint()

        await asyncio.gather(*(use() for _ in range(20)))
        assert keeper.opened == ["a"]
        assert len({id(backend) for backend in seen}) == 1


async def test_a_client_that_leaves_while_it_opens_spoils_nothing(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, _):

        async def use():
            async with pool.lease("a"):
                await anyio.sleep_forever()

        first = asyncio.create_task(use())
        await asyncio.sleep(0)
        first.cancel()
        async with pool.lease("a") as backend:
            assert (await backend.pipeline()).busy is False
        assert keeper.opened == ["a"]


async def test_what_cannot_be_opened_is_tried_again(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, _):
        for _ in range(2):
            with pytest.raises(WorkspaceUnknownError):
                async with pool.lease("nobody"):
                    pass
        base = tmp_path / "bases" / "a" / "base.sqlite"
        base.write_bytes(b"no database" * 1000)
        with pytest.raises(WorkspaceBrokenError):
            async with pool.lease("a"):
                pass
        assert pool.open_names == []
        base.unlink()
        async with pool.lease("a"):
            assert keeper.open_now == ["a"]


async def test_a_base_that_another_process_holds_is_refused(tmp_path):
    async with pooled(tmp_path) as (_, pool, _):
        other = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
        backend = await other.open("a")
        with pytest.raises(WorkspaceLockedError):
            async with pool.lease("a"):
                pass
        await backend.close()
        await other.close()
        async with pool.lease("a"):
            pass


async def test_who_comes_in_the_very_moment_of_a_closing_comes_in(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, clock):
        async with pool.lease("a") as backend:
            pass
        close, closed = backend.close, asyncio.Event()

        async def tells():
            await close()
            closed.set()  # the last step: who waits for it runs before anything that waits for us

        backend.close = tells

        async def come_in():
            await closed.wait()
            async with pool.lease("a"):
                return keeper.open_now

        coming = asyncio.create_task(come_in())
        await anyio.lowlevel.checkpoint()
        clock.now += 11
        await pool.sweep()
        assert await coming == ["a"]


async def test_the_longest_unused_goes_when_there_are_too_many_and_never_one_in_use(tmp_path):
    async with pooled(tmp_path) as (_, pool, clock), pool.lease("a"):
        for name in ("b", "c"):
            clock.now += 1
            async with pool.lease(name):
                pass
        assert pool.open_names == ["a", "c"]
        async with pool.lease("b"), pool.lease("c"):
            assert pool.open_names == ["a", "b", "c"]  # all in use: more than the pool likes


async def test_a_sweep_closes_what_is_idle_and_leaves_what_is_not(tmp_path):
    async with pooled(tmp_path, most_open=9) as (_, pool, clock), pool.lease("a"):
        async with pool.lease("b"):
            pass
        clock.now = 9
        async with pool.lease("c"):
            pass
        clock.now = 11
        await pool.sweep()
        assert pool.open_names == ["a", "c"]


async def test_a_workspace_that_broke_while_it_was_open_keeps_no_other_from_its_place(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, clock):
        for name in ("a", "b"):
            async with pool.lease(name):
                pass
            base = tmp_path / "bases" / name / "base.sqlite"
            data = base.read_bytes()
            base.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
        async with pool.lease("c"):
            assert keeper.open_now == ["b", "c"]
        clock.now = 11
        await pool.sweep()
        assert keeper.open_now == []


async def test_who_comes_while_it_is_closed_waits_for_the_end_and_opens_anew(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, clock):
        async with pool.lease("a"):
            pass
        clock.now = 11
        sweeping = asyncio.create_task(pool.sweep())
        with anyio.fail_after(30):
            while pool.open_names:  # until it is being closed, which nothing tells
                await anyio.lowlevel.checkpoint()
        assert keeper.open_now == ["a"]
        async with pool.lease("a"):
            assert keeper.opened == ["a", "a"]
        await sweeping


async def test_a_drop_waits_for_its_users_and_keeps_newcomers_out(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, _):
        async with pool.lease("a"):
            dropping = asyncio.create_task(pool.drop("a", wait_s=30))
            for _ in range(10):  # it has begun, and waits
                await asyncio.sleep(0)
            for refused in (pool.drop("a", wait_s=0), pool.create("a")):
                with pytest.raises(BusyError):
                    await refused
            with pytest.raises(BusyError):
                async with pool.lease("a"):
                    pass
            assert not dropping.done()
        assert await dropping is True
        assert not await keeper.exists("a")
        assert await pool.drop("a", wait_s=0) is False
        assert await pool.create("a") is True


async def test_a_drop_gives_up_after_its_wait_and_leaves_all_as_it_was(tmp_path):
    async with pooled(tmp_path) as (keeper, pool, _):
        async with pool.lease("a") as backend:
            await backend.insert([NewDocument("Words.", "a.txt")], "insert_x")
            with pytest.raises(BusyError):
                await pool.drop("a", wait_s=0.01)
            assert await backend.named("a.txt")
        async with pool.lease("a") as backend:
            assert await backend.named("a.txt")
        assert await keeper.exists("a")


ACTIONS = st.one_of(
    st.tuples(st.just("lease"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    st.tuples(st.just("create"), st.sampled_from(NAMES)),
    st.tuples(st.just("sweep"), st.just("")),
    st.tuples(st.just("wait"), st.just("")),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=st.lists(ACTIONS, max_size=25))
def test_whatever_happens_what_is_leased_is_open_and_what_is_dropped_is_gone(
    tmp_path_factory, actions
):
    anyio.run(_play, tmp_path_factory.mktemp("pool"), actions)


async def _play(data, actions):
    async with pooled(data) as (keeper, pool, clock):
        player = Player(keeper, pool, clock)
        for action, name in actions:
            await getattr(player, action)(name)
            assert set(player.leased) <= set(keeper.open_now) <= player.exist
            assert len(keeper.open_now) <= max(2, len(player.leased))
            assert set(await keeper.names()) == player.exist
        for stack in player.leased.values():
            await stack.aclose()


class Player:
    """Plays actions on a pool of two beside a plain model: who exists and who is leased."""

    def __init__(self, keeper, pool, clock):
        self.keeper, self.pool, self.clock = keeper, pool, clock
        self.exist = set(NAMES)
        self.leased = {}

    async def lease(self, name):
        if name in self.leased:
            return
        stack = contextlib.AsyncExitStack()
        if name in self.exist:
            backend = await stack.enter_async_context(self.pool.lease(name))
            await backend.pipeline()
            self.leased[name] = stack
        else:
            with pytest.raises(WorkspaceUnknownError):
                await stack.enter_async_context(self.pool.lease(name))

    async def leave(self, name):
        if name in self.leased:
            await self.leased.pop(name).aclose()

    async def drop(self, name):
        if name in self.leased:
            with pytest.raises(BusyError):
                await self.pool.drop(name, wait_s=0)
        else:
            assert await self.pool.drop(name, wait_s=0) is (name in self.exist)
            self.exist.discard(name)

    async def create(self, name):
        assert await self.pool.create(name) is (name not in self.exist)
        self.exist.add(name)

    async def sweep(self, _):
        await self.pool.sweep()

    async def wait(self, _):
        self.clock.now += 6
