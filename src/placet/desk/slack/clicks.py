"""What becomes of a click, a dialogue or a command in Slack: nothing, unless it is a linked person's, from our
workspace, new, on the message that shows that question, and about exactly what it showed.

Who clicks without being linked is answered in private, and nothing is counted. All else is decided where every decision
of the desk is, with the assurance «chat».
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from placet.channels.slack_blocks import (
    APPROVE,
    EDIT,
    OPEN,
    REJECT,
    Marked,
    button,
    escaped,
    leads_to_the_desk,
    link_button,
    section,
    title_about,
)
from placet.channels.slack_client import error_code
from placet.core.index import RequestRecord
from placet.desk.access.chat_links import ChatLinks
from placet.desk.access.people import Actor
from placet.desk.pages.differences import comparison_of
from placet.desk.slack.asking import Asked, Dialogues
from placet.desk.web.context import Web
from placet.desk.web.deciding import Decision, decide, request_or_404, why_not_decide
from placet.desk.web.problems import Problem
from placet.facts.errors import AccessDenied
from placet.ports import StoredRecord
from placet.service.rates import Buckets
from placet.service.slack_messages import ChatMessage, message_of

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

logger = logging.getLogger("placet.desk.slack")

Payload: TypeAlias = dict[str, Any]  # Any: Slack's JSON

LINK, IS_ME, NOT_ME = "placet_link", "placet_is_me", "placet_not_me"
WORD_DIALOGUE, DIALOGUE = "placet_word", "placet_dialogue"
OLDEST_CLICK = 600.0
"""Seconds after which a click decides nothing: it was held up, or somebody sends it again."""
SEEN, SEEN_SECONDS = "chat_seen", 3600.0
NOTING_LOOKS, NOTING_SECONDS = 10, 0.1
ANSWERS_PER_MINUTE = 10.0
"""Private answers to one account: who clicks on and on is not answered on and on."""
HOW_TO_LINK = "Log in at the desk, get a word on your account's page, and type it here."


_VERDICTS: dict[str, Literal["approve", "reject", "edit"]] = {APPROVE: "approve", REJECT: "reject", EDIT: "edit"}


class Refused(Exception):
    """Nothing was decided, and this is what whoever clicked is told."""

    def __init__(self, message: str, *, link: str | None = None, offers_link: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.link = link
        self.offers_link = offers_link


class Clicks:
    """Everything that comes from Slack, with one method for each kind of it."""

    def __init__(self, web: Web, client: AsyncWebClient, team: str) -> None:
        self._web = web
        self._client = client
        self._team = team
        self._links = ChatLinks(web.desk.store, web.clock)
        self._dialogues = Dialogues(web, client)
        self._answers = Buckets(ANSWERS_PER_MINUTE / 60, ANSWERS_PER_MINUTE, web.clock)

    async def answer(self, kind: str, payload: Payload) -> Payload | None:
        """What Slack is told with the confirmation; None: only that it came."""
        account = self._account_of(kind, payload)
        if account is None:
            logger.warning("click refused", extra={"action": "slack_refused", "why": "another workspace"})
            return None
        match kind, payload.get("type"):
            case "slash_commands", _:
                return await self._command(account, payload)
            case "interactive", "block_actions":
                await self._clicked(account, payload)
            case "interactive", "view_submission":
                return await self._submitted(account, payload)
            case _:
                pass  # an event that we did not ask for
        return None

    def _account_of(self, kind: str, payload: Payload) -> str | None:
        """Who it is, by workspace and id. None: not of our workspace, such as a guest of a shared channel."""
        if kind == "slash_commands":
            teams, user = [payload.get("team_id")], payload.get("user_id")
        else:
            found = payload.get("user") or {}
            team = payload.get("team") or {}
            teams, user = [team.get("id"), found.get("team_id", team.get("id"))], found.get("id")
        if not isinstance(user, str) or any(each != self._team for each in teams):
            return None
        return f"slack:{self._team}:{user}"

    # -- clicks -------------------------------------------------------------------------------------------------------

    async def _clicked(self, account: str, payload: Payload) -> None:
        actions = payload.get("actions") or []
        action = actions[0] if actions else {}
        channel = (payload.get("container") or {}).get("channel_id")
        seen = f"{account}:{hashlib.sha256(str(payload.get('trigger_id')).encode()).hexdigest()}"
        if action.get("action_id") == OPEN or await self._web.desk.store.record(SEEN, seen) is not None:
            return
        try:
            await self._click(account, payload, action)
        except Refused as refused:
            self._note(account, refused.message)
            await self._tell(account, channel, refused)
        finally:
            # After it was done: if we die before, the same click, sent again by Slack, is not lost.
            until = self._web.clock.now() + SEEN_SECONDS
            await self._web.desk.store.add_record(StoredRecord(kind=SEEN, id=seen, data="", expires_at=until))

    async def _click(self, account: str, payload: Payload, action: Payload) -> None:
        match action.get("action_id"):
            case "placet_link":
                await self._dialogues.ask_for_word(str(payload.get("trigger_id")))
            case "placet_is_me" | "placet_not_me" as verb:
                await self._confirmed(account, str(action.get("value")), is_me=verb == IS_ME)
            case "placet_approve" | "placet_reject" | "placet_edit" as verb:
                await self._about_request(account, payload, action, verb)
            case _:
                raise Refused("This button is not known here.")

    async def _about_request(self, account: str, payload: Payload, action: Payload, verb: str) -> None:
        marked, shown = await self._message(payload, action)
        actor = await self._actor(account)
        request = await self._waiting(marked)
        link = self._link(request)
        self._refuse_late(action, link)
        verdict = _VERDICTS[verb]
        if verdict != "reject":
            await self._refuse_what_needs_the_desk(request, link)
        why = await why_not_decide(self._web, actor, request, "reject" if verdict == "reject" else "approve")
        if why is not None:
            raise Refused(why, link=link)
        asked = Asked(account=account, channel=shown.channel, request=request.id, digest=request.digest, verb=verdict)
        if verdict == "approve" and shown.shows_all:
            await self._decide(actor, request, Decision(decision="approve", digest=marked.digest), link)
        elif (why := await self._dialogues.open(asked, request, str(payload.get("trigger_id")))) is not None:
            raise Refused(why, link=link)

    async def _message(self, payload: Payload, action: Payload) -> tuple[Marked, ChatMessage]:
        """The question that the clicked button is about: the one that this very message shows."""
        marked = Marked.of(action.get("value"))
        container = payload.get("container") or {}
        place = (container.get("channel_id"), container.get("message_ts"))
        shown = None if marked is None else await self._place_of(marked)
        if marked is None or shown is None or (shown.channel, shown.ts) != place:
            raise Refused("This message is not the one that shows the question: nothing was decided.")
        return marked, shown

    async def _place_of(self, marked: Marked) -> ChatMessage | None:
        """Where the question is shown. It is noted after the message is there: who clicks at once is waited for."""
        for _ in range(NOTING_LOOKS):
            shown = await message_of(self._web.desk.store, marked.subscription, marked.request)
            if shown is not None:
                return shown
            await asyncio.sleep(NOTING_SECONDS)
        return None

    async def _actor(self, account: str) -> Actor:
        found = await self._links.actor_of(account)
        if found is None:
            message = (
                f"Your Slack account is not linked to a user of the desk: this click does not count. {HOW_TO_LINK}"
            )
            raise Refused(message, offers_link=True)
        return found

    async def _waiting(self, marked: Marked) -> RequestRecord:
        try:
            request = await request_or_404(self._web, marked.request)
        except Problem as problem:
            raise Refused(problem.detail) from problem
        link = self._link(request)
        if request.status != "pending":
            raise Refused(f"Nothing was decided by this click. {title_about(request)}.", link=link)
        if request.digest != marked.digest:
            raise Refused("The question is about something else now: nothing was decided.", link=link)
        return request

    def _refuse_late(self, action: Payload, link: str | None) -> None:
        try:
            clicked_at = float(action.get("action_ts") or 0)
        except ValueError:
            clicked_at = 0.0
        if abs(self._web.clock.now() - clicked_at) > OLDEST_CLICK:
            raise Refused("This click came too late: nothing was decided. Click again.", link=link)

    async def _refuse_what_needs_the_desk(self, request: RequestRecord, link: str | None) -> None:
        if leads_to_the_desk(request):
            raise Refused("A yes to this is given at the desk: a chat cannot show or prove enough.", link=link)
        if (await comparison_of(self._web, request)).is_unusual:
            raise Refused("Something in this call is unusual: look at it at the desk, and decide there.", link=link)

    async def _decide(self, actor: Actor, request: RequestRecord, decision: Decision, link: str | None) -> None:
        try:
            await decide(self._web, actor, request.id, decision)
        except Problem as problem:
            raise Refused(_told(problem), link=link) from problem

    def _link(self, request: RequestRecord) -> str | None:
        base = self._web.settings.public_url or self._web.desk.outbox.base_url
        return f"{base.rstrip('/')}/inbox?open={request.id}" if base else None

    # -- dialogues ----------------------------------------------------------------------------------------------------

    async def _submitted(self, account: str, payload: Payload) -> Payload | None:
        view = payload.get("view") or {}
        match view.get("callback_id"):
            case "placet_word":
                return await self._word(account, payload, self._dialogues.word_in(view))
            case "placet_dialogue":
                return await self._dialogue(account, view)
            case _:
                return None

    async def _dialogue(self, account: str, view: Payload) -> Payload | None:
        """Close it, or show in it what is wrong."""
        try:
            asked = await self._dialogues.asked(account, view)
            if asked is None:
                raise Refused("This dialogue was used already, is too old, or is not yours: nothing was decided.")
            actor = await self._actor(account)
            request = await self._waiting(
                Marked(subscription="", request=asked.request, digest=asked.digest)  # where it was shown was checked
            )
            if asked.verb != "reject":
                await self._refuse_what_needs_the_desk(request, self._link(request))
            reading = await self._dialogues.read(asked, request, view)
            if reading.problems or reading.decision is None:
                return {"response_action": "errors", "errors": reading.problems}
            await decide(self._web, actor, request.id, reading.decision)
        except Refused as refused:
            self._note(account, refused.message)
            return self._dialogues.shows(refused.message, refused.link)
        except Problem as problem:
            self._note(account, problem.detail)
            return self._dialogues.wrong(view, problem)
        await self._dialogues.used(view)
        return None

    # -- linking ------------------------------------------------------------------------------------------------------

    async def _command(self, account: str, payload: Payload) -> Payload:
        """`/placet link WORD`. The answer is seen by whoever typed it alone."""
        verb, _, word = str(payload.get("text") or "").strip().partition(" ")
        if verb != "link" or not word.strip():
            return {"response_type": "ephemeral", "text": f"Type /placet link WORD. {HOW_TO_LINK}"}
        text, blocks = await self._typed(account, str(payload.get("user_name") or ""), word)
        return {"response_type": "ephemeral", "text": escaped(text), "blocks": blocks}

    async def _word(self, account: str, payload: Payload, word: str) -> Payload:
        user = payload.get("user") or {}
        text, blocks = await self._typed(account, str(user.get("username") or user.get("name") or ""), word)
        return self._dialogues.shows(text, None, blocks)

    async def _typed(self, account: str, label: str, word: str) -> tuple[str, list[Payload]]:
        try:
            begun = await self._links.type_word(account, label, word)
        except AccessDenied as error:
            self._note(account, error.message)
            return error.message, [section(error.message)]
        text = f"Are you «{begun.owner}» at the desk? What you click here would count as theirs."
        buttons = [
            button(f"Yes, I am {begun.owner}"[:75], IS_ME, begun.id, "primary"),
            button("No", NOT_ME, begun.id),
        ]
        return text, [section(text), {"type": "actions", "elements": buttons}]

    async def _confirmed(self, account: str, begun_id: str, *, is_me: bool) -> None:
        try:
            begun = await self._links.answer_there(account, begun_id, is_me=is_me)
        except AccessDenied as error:
            raise Refused(error.message) from error
        user = account.rpartition(":")[2]
        text = "Nothing is linked."
        if is_me:
            text = f"One step is left: confirm it at the desk, on the page of {begun.owner}'s account."
        await self._client.chat_postMessage(channel=user, text=escaped(text), mrkdwn=False)

    # -- telling ------------------------------------------------------------------------------------------------------

    async def _tell(self, account: str, channel: object, refused: Refused) -> None:
        """In private: nobody else sees who clicked what."""
        from slack_sdk.errors import SlackApiError

        if self._answers.take(account) > 0:
            return
        user = account.rpartition(":")[2]
        elements = [button("Link my account", LINK, "link")] if refused.offers_link else []
        if refused.link is not None:
            elements.append(link_button("Open at the desk", refused.link))
        blocks = [section(refused.message), *([{"type": "actions", "elements": elements}] if elements else [])]
        try:
            if isinstance(channel, str):
                await self._client.chat_postEphemeral(
                    channel=channel, user=user, text=escaped(refused.message), blocks=blocks
                )
            else:
                await self._client.chat_postMessage(channel=user, text=escaped(refused.message), blocks=blocks)
        except SlackApiError as error:
            logger.warning("not told", extra={"action": "slack_not_told", "error": error_code(error)})

    async def say_late(self, payload: Payload, answer: Payload) -> None:
        """What a dialogue would have shown, if Slack had waited for it: it is closed by now."""
        user = (payload.get("user") or {}).get("id") or payload.get("user_id")
        first = ((answer.get("view") or {}).get("blocks") or answer.get("blocks") or [{}])[0]
        said = [*(answer.get("errors") or {}).values(), (first.get("text") or {}).get("text", "")]
        text = " ".join(str(each) for each in said if each)
        if isinstance(user, str) and text:
            await self._client.chat_postMessage(channel=user, text=escaped(text), mrkdwn=False)

    def _note(self, account: str, why: str) -> None:
        logger.warning("click refused", extra={"action": "slack_refused", "account": account, "why": why[:200]})


def _told(problem: Problem) -> str:
    if problem.winner is not None:
        return f"{problem.winner.by or 'Another person'} was quicker: nothing was decided by this click."
    return problem.detail
