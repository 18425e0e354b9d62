"""Receipts: signed tokens that show a service that a call was approved. The desk issues them, the service verifies."""

from __future__ import annotations

from placet.core.receipt import HEADER, META, receipt_digest
from placet.facts.errors import ReceiptNotSigned, ReceiptRefused
from placet.receipts.issuing import Receipts, SigningKey
from placet.receipts.keys import KeyFile, KeyText, new_key, receipts_from_environment
from placet.receipts.verifying import Receipt, verify

__all__ = [
    "HEADER",
    "META",
    "KeyFile",
    "KeyText",
    "Receipt",
    "ReceiptNotSigned",
    "ReceiptRefused",
    "Receipts",
    "SigningKey",
    "new_key",
    "receipt_digest",
    "receipts_from_environment",
    "verify",
]
