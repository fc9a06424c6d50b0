"""No base ever shows another's texts, names or ids: a state machine, and twenty clients at once."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from isolation import NAMES, WEIGHTS, World

# The check walks far; whoever runs the tests by hand waits a minute.
STEPS = 2_000 if os.environ.get("CI") else 150
CLIENTS = 20
STEPS_OF_A_CLIENT = 10
PICKS = st.integers(0, 2**16)
# What is going on in the background differs from run to run, so that nothing can be replayed.
SETTINGS = settings(
    max_examples=6,
    stateful_step_count=30,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


class Isolation(RuleBasedStateMachine):
    """Three teams in a world that earlier runs have filled; Hypothesis chooses the steps."""

    def __init__(self, portal, world):
        super().__init__()
        self.portal, self.world = portal, world
        self.teams = []
        self.restarted = False

    @initialize()
    def make_teams(self):
        self.teams = [self.portal.call(self.world.team) for _ in range(3)]

    @rule(name=st.sampled_from(NAMES), team=st.integers(0, 2), pick=PICKS)
    def take_a_step(self, name, team, pick):
        self.portal.call(self.world.step, self.teams[team], name, pick)

    @precondition(lambda self: not self.restarted)
    @rule(chance=st.integers(0, 39))
    def restart(self, chance):
        if chance == 0:
            self.restarted = True
            self.world.steps["restart"] += 1
            self.portal.call(self.world.restart)


@pytest.mark.timeout(1500)
def test_no_base_ever_shows_anothers_text_names_or_ids(migrated_url, tmp_path):
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(World(migrated_url, tmp_path / "knowledge")) as world,
    ):
        while sum(world.steps.values()) < STEPS:
            run_state_machine_as_test(lambda: Isolation(portal, world), settings=SETTINGS)
        assert set(WEIGHTS) <= set(world.steps)


@pytest.mark.timeout(600)
async def test_twenty_clients_at_once_see_nothing_of_each_other(migrated_url, tmp_path):
    async with World(migrated_url, tmp_path / "knowledge") as world:
        teams = [await world.team() for _ in range(CLIENTS)]

        async def client(number):
            choose = random.Random(number)  # noqa: S311 - steps, not secrets
            for _ in range(STEPS_OF_A_CLIENT):
                name = choose.choice(NAMES)
                await world.step(teams[number], name, choose.randrange(2**16))

        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
        assert sum(world.steps.values()) == CLIENTS * STEPS_OF_A_CLIENT
