"""What «correct» means for a session, as tests that every session inherits.

A class of tests gives a fixture `session` with an empty one. What a session gives back may be in another form than what
it was given (a text in parts, a type that was not named), so items are compared by what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from placet.facts.items import text_of
from placet.ports import Session

Item = dict[str, Any]
SECONDS = 90.0


def texts(items: Sequence[Item]) -> list[str]:
    """The conversation as who said, called or returned what."""
    return [_line(item) for item in items]


def _line(item: Item) -> str:
    match item.get("type") or "message":
        case "message":
            return f"{item['role']}: {text_of(item)}"
        case "function_call":
            return f"{item['call_id']}: {item['name']}({item['arguments']})"
        case "function_call_output":
            return f"{item['call_id']} -> {item['output']}"
        case kind:
            return str(kind)


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def assistant(text: str) -> Item:
    """As a model's response brings it, with what its server noted."""
    return {
        "type": "message",
        "id": f"msg_{text}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def called(label: str) -> Item:
    return {"type": "function_call", "id": f"fc_{label}", "call_id": label, "name": "pay", "arguments": '{"n":1}'}


def returned(label: str, output: str = "paid") -> Item:
    return {"type": "function_call_output", "call_id": label, "output": output}


def talk(length: int) -> list[Item]:
    return [user(f"{n}") if n % 2 == 0 else assistant(f"{n}") for n in range(length)]


class SessionContract:
    async def test_a_new_session_is_empty_and_every_question_to_it_has_an_answer(self, session: Session) -> None:
        await session.add_items([])
        await session.clear_session()

        assert await session.get_items() == []
        assert await session.get_items(3) == []
        assert await session.pop_item() is None

    async def test_items_come_back_in_the_order_in_which_they_were_added(self, session: Session) -> None:
        items = [user("hi"), called("c1"), returned("c1"), assistant("done"), {"role": "developer", "content": "Ü 🙂"}]
        await session.add_items(items[:2])
        await session.add_items(items[2:])

        assert texts(await session.get_items()) == texts(items)

    async def test_a_limit_gives_the_newest_so_many_oldest_first(self, session: Session) -> None:
        items = talk(5)
        await session.add_items(items)

        assert texts(await session.get_items(2)) == texts(items[3:])
        assert texts(await session.get_items(5)) == texts(items)
        assert texts(await session.get_items(50)) == texts(items)
        assert await session.get_items(0) == []

    async def test_a_long_conversation_is_written_and_read_whole(self, session: Session) -> None:
        items = talk(223)
        await session.add_items(items)

        assert texts(await session.get_items()) == texts(items)
        assert texts(await session.get_items(101)) == texts(items[-101:])

    async def test_what_was_said_twice_is_there_twice(self, session: Session) -> None:
        await session.add_items([user("again"), user("again")])
        await session.add_items([user("again")])

        assert texts(await session.get_items()) == ["user: again"] * 3

    async def test_the_newest_item_can_be_taken_away(self, session: Session) -> None:
        items = [user("hi"), called("c1"), returned("c1")]
        await session.add_items(items)

        taken = [await session.pop_item(), await session.pop_item()]

        assert texts([item for item in taken if item is not None]) == texts([items[2], items[1]])
        assert texts(await session.get_items()) == ["user: hi"]

    async def test_nothing_is_taken_away_twice_by_tasks_that_take_at_once(self, session: Session) -> None:
        items = talk(6)
        await session.add_items(items)

        taken = await asyncio.wait_for(asyncio.gather(*(session.pop_item() for _ in range(8))), SECONDS)

        found = [item for item in taken if item is not None]
        assert sorted(texts(found)) == sorted(texts(items))
        assert await session.get_items() == []

    async def test_a_cleared_session_is_empty_keeps_its_id_and_goes_on(self, session: Session) -> None:
        await session.add_items(talk(25))
        name = session.session_id

        await session.clear_session()
        emptied = await session.get_items()
        await session.add_items([user("anew")])

        assert emptied == []
        assert session.session_id == name
        assert texts(await session.get_items()) == ["user: anew"]

    async def test_what_is_done_to_items_outside_does_not_change_those_inside(self, session: Session) -> None:
        given = [user("hi")]
        await session.add_items(given)
        given[0]["content"] = "changed"
        (await session.get_items())[0]["content"] = "changed"

        assert texts(await session.get_items()) == ["user: hi"]

    async def test_what_was_read_can_be_added_again_and_reads_the_same(self, session: Session) -> None:
        await session.add_items([user("hi"), called("c1"), returned("c1"), assistant("done")])
        once = await session.get_items()
        await session.add_items(once)

        assert await session.get_items() == [*once, *once]
