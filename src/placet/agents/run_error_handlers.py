"""Answering instead of raising."""

from __future__ import annotations

from placet import RunErrorData, RunErrorHandlerInput, RunErrorHandlerResult, RunErrorHandlers
from placet.runtime.error_handlers import ErrorHandler as RunErrorHandler

__all__ = ["RunErrorData", "RunErrorHandler", "RunErrorHandlerInput", "RunErrorHandlerResult", "RunErrorHandlers"]
