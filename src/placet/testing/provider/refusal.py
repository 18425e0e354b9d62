"""How the services say no: a status and an error body, in OpenAI's form or in Anthropic's."""

from __future__ import annotations

from typing import Any

from placet.testing.provider.reply import Reply, json_reply

ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Refused(Exception):
    """The request breaks a rule of the service. Nothing of it was taken."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.kind = kind


def openai_error(refused: Refused, **headers: str) -> Reply:
    body = {"message": refused.message, "type": refused.kind, "param": refused.param, "code": refused.code}
    return json_reply({"error": body}, refused.status, **headers)


def anthropic_error(refused: Refused, request_id: str, **headers: str) -> Reply:
    return json_reply(anthropic_error_body(refused, request_id), refused.status, **headers)


def anthropic_error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    kind = ANTHROPIC_TYPES.get(refused.status, refused.kind if refused.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refused.message}, "request_id": request_id}
