"""Walk 10,000 steps through a world of teams, and as many with 20 clients at once, for isolation.

python benchmarks/gateway_isolation.py [STEPS]
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from dsh_lightrag.gateway.database import migrate, parse_url
from dsh_lightrag.logs import without_info

TESTS = Path(__file__).parents[1] / "tests"
# In place of this script's own folder, whose `mcp.py` would hide the SDK of that name.
sys.path[:1] = [str(TESTS), str(TESTS / "gateway"), str(TESTS / "gateway" / "api")]
from isolation import NAMES, World  # noqa: E402 - the tests' own world, found through the path

from postgres import running_postgres  # noqa: E402 - as above

STEPS = 10_000
RESTARTS = 10


async def walk(url: str, steps: int, clients: int) -> float:
    """Take the steps, restarting now and then where one client walks alone; return seconds."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, without_info():
        async with World(url, Path(folder) / "knowledge") as world:
            teams = [await world.team() for _ in range(max(clients, 3))]

            async def client(number: int) -> None:
                choose = random.Random(number)  # noqa: S311 - steps, not secrets
                for step in range(steps // clients):
                    team = teams[number] if clients > 1 else choose.choice(teams)
                    await world.step(team, choose.choice(NAMES), choose.randrange(2**16))
                    if clients == 1 and step % (steps // RESTARTS) == 0:
                        await world.restart()

            await asyncio.gather(*map(client, range(clients)))
    return time.perf_counter() - started


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    with running_postgres() as postgres:
        for clients in (1, 20):
            url = postgres.new_database()
            migrate(parse_url(url))
            seconds = asyncio.run(walk(url, steps, clients))
            print(f"{clients} client(s): {steps} steps in {seconds:.0f} s, nothing leaked")


if __name__ == "__main__":
    main()
