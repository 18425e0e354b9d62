"""Addresses that may hold credentials, as they may be shown: messages end up in logs and on screens."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"\b([A-Za-z][\w+.-]*:/{1,3})[^\s'\"«»]*@")
"""From the scheme to the last «@»: who forgets to escape an «@» or a «/» of a password has several."""
_PARAMETER = re.compile(r"\b(\w*(?:passw(?:or)?d|pwd|secret|token|api_?key))=('[^']*'|[^\s&'\"«»]+)", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """The text with the name and password of every address in it, and every `password=…`, left out."""
    return _PARAMETER.sub(r"\1=…", _CREDENTIALS.sub(r"\1", text))
