"""A conversation that outlives its runs."""

import asyncio

from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession
from agents.memory import SessionABC
from agents.testing import ScriptedModel, assistant_message


class ListSession(SessionABC):
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items = []

    async def get_items(self, limit=None):
        return self.items if limit is None else self.items[-limit:]

    async def add_items(self, items):
        self.items.extend(items)

    async def pop_item(self):
        return self.items.pop() if self.items else None

    async def clear_session(self):
        self.items.clear()


def said(items):
    return [item["content"] if isinstance(item["content"], str) else item["content"][0]["text"] for item in items]


async def main() -> None:
    for session in (SQLiteSession("user-1"), ListSession("user-2")):
        model = ScriptedModel([[assistant_message(f"answer {n}")] for n in range(3)])
        agent = Agent(name="A", model=model)
        for question in ("one", "two"):
            await Runner.run(agent, question, session=session)
        print(said(model.last_call.input))
        print(said(await session.get_items()), len(await session.get_items(limit=1)))
        config = RunConfig(session_settings=SessionSettings(limit=1))
        await Runner.run(agent, "three", session=session, run_config=config)
        print(said(model.last_call.input))
        popped = await session.pop_item()
        print(popped["role"])
        await session.clear_session()
        print(await session.get_items())


asyncio.run(main())
