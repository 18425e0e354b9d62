"""The README's example works with a real model's client too: the one line that it shows is all that changes."""

from __future__ import annotations

import re

import pytest

from placet.testing import FakeProvider, assistant_message, function_call
from tests.docs.pages import ROOT, blocks_of

README = ROOT / "README.md"


def the_program() -> str:
    return next(
        block.text for block in blocks_of(README) if block.info == "python" and "asyncio.run(main())" in block.text
    )


def the_line_for_a_real_model() -> str:
    return next(block.text for block in blocks_of(README) if block.info == "text" and block.text.startswith("agent = "))


def test_with_the_line_for_a_real_model_the_program_asks_that_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, changed = re.subn(r"^agent = .*\n", the_line_for_a_real_model(), the_program(), flags=re.MULTILINE)
    provider = FakeProvider(
        [
            [
                function_call("look_up", {"order_id": "7"}, call_id="call_1"),
                function_call("refund", {"order_id": "7", "cents": 4200}, call_id="call_2"),
            ],
            [assistant_message("Order 7 is refunded.")],
        ]
    )
    with provider.serve() as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        exec(compile(program, str(README), "exec"), {"__name__": "__main__"})  # noqa: S102  # our own documentation

    assert changed == 1
    assert capsys.readouterr().out.splitlines()[-1] == "Order 7 is refunded."
    assert [request.body["model"] for request in provider.requests] == ["gpt-5", "gpt-5"]
