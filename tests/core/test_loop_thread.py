from __future__ import annotations

import asyncio
import contextvars
import signal
import threading

import pytest

from dsh_lightrag.loop_thread import wait_for

PLACE = contextvars.ContextVar("place", default="nowhere")


async def value():
    return PLACE.get()


def test_it_returns_what_the_coroutine_returns_and_passes_context_variables_on():
    def within():
        PLACE.set("here")
        return wait_for(value())

    assert contextvars.copy_context().run(within) == "here"


async def test_it_works_inside_a_running_loop():
    assert wait_for(value()) == "nowhere"


def test_what_the_coroutine_raises_is_raised():
    async def fails():
        raise LookupError("x")

    with pytest.raises(LookupError):
        wait_for(fails())


def test_an_interrupt_cancels_the_coroutine_and_ends_the_thread():
    ending = []
    waiting = threading.Event()

    async def waits():
        waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ending.append("cancelled")
            raise

    def interrupt():
        waiting.wait(10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        wait_for(waits())
    assert ending == ["cancelled"]
    assert not [t for t in threading.enumerate() if t.name == "dsh-lightrag"]


def test_tasks_that_the_coroutine_left_behind_are_ended_too():
    ending = []

    async def left_behind():
        try:
            await asyncio.sleep(60)
        finally:
            ending.append("ended")

    async def leaves():
        ending.append(asyncio.create_task(left_behind()))
        await asyncio.sleep(0)

    wait_for(leaves())
    assert ending[-1] == "ended"
