"""What the pages bring along is what its authors published, with its licence, and nothing is fetched from elsewhere."""

from __future__ import annotations

import hashlib
import re

from placet.desk.pages.rendering import HERE, STATIC

HTMX = "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f"


def test_htmx_is_the_published_file_and_its_licence_lies_beside_it() -> None:
    vendored = STATIC / "vendor"

    assert hashlib.sha256((vendored / "htmx-4.0.0.min.js").read_bytes()).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (vendored / "htmx-LICENSE.txt").read_text("utf-8")


def test_templates_hold_no_script_no_style_and_no_address_of_elsewhere() -> None:
    for template in (HERE / "templates").iterdir():
        text = template.read_text("utf-8")
        found = re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|hx-on|https?://|\bjs:|javascript:", text)

        assert found == [], template.name


def test_no_template_switches_escaping_off() -> None:
    for template in (HERE / "templates").iterdir():
        assert not re.search(r"\|\s*safe\b|autoescape\s+false", template.read_text("utf-8")), template.name
