"""Contrast, computed from the stylesheet's own variables in both schemes."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from atlas.contract.base import Evidence
from tests.atlas.site.conftest import template_files

CSS = template_files()["style.css"].decode()
ROOTS = re.findall(r":root\{([^}]*)\}", CSS)


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})\b", block))


LIGHT = variables(ROOTS[0])
DARK = LIGHT | variables(ROOTS[1])
SCHEMES = {"light": LIGHT, "dark": DARK}

TEXT_PAIRS = [
    (ink, paper)
    for ink in ("ink", "soft", "accent")
    for paper in ("bg", "card", "tint")
] + [("badge-ink", "badge"), ("demo-ink", "demo"), ("bg", "ink")] + [
    ("ink", f"s{step}") for step in range(5)
]  # fmt: skip
GRAPHIC_PAIRS = [("above", "card"), ("edge", "card"), ("accent", "card"), ("whisker", "card")]


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * d for d in digits)
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white_is_twenty_one() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("ink", "paper"), TEXT_PAIRS)
def test_text_has_a_contrast_of_at_least_four_and_a_half(scheme: str, ink: str, paper: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[ink], colours[paper]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("mark", "paper"), GRAPHIC_PAIRS)
def test_marks_have_a_contrast_of_at_least_three(scheme: str, mark: str, paper: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[mark], colours[paper]) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_three_marks_differ_in_lightness_and_not_in_hue_alone(scheme: str) -> None:
    above, holds, below = (luminance(SCHEMES[scheme][m]) for m in ("above", "holds", "below"))
    ordered = [above, holds, below] if scheme == "light" else [below, holds, above]
    assert ordered == sorted(ordered)
    assert (ordered[1] + 0.05) / (ordered[0] + 0.05) > 1.5
    assert (ordered[2] + 0.05) / (ordered[1] + 0.05) > 1.5


def test_steps_of_lightness_are_monotone_from_paper_to_ink() -> None:
    for colours, reverse in ((LIGHT, True), (DARK, False)):
        steps = [luminance(colours[f"s{i}"]) for i in range(5)] + [luminance(colours["above"])]
        assert steps == sorted(steps, reverse=reverse)


def test_the_stylesheet_asks_nobody_for_anything() -> None:
    assert "url(" not in CSS
    assert "@import" not in CSS
    assert "@font-face" not in CSS


def test_every_class_that_a_drawing_uses_has_a_rule() -> None:
    for name in ("above", "holds", "below", "whisker", "uniform", "grid", "gaps", "hits"):
        assert re.search(rf"\.{name}\b", CSS), name
    for step in range(12):
        assert f".s{step}{{" in CSS


def test_classes_of_evidence_differ_by_the_form_of_the_underline() -> None:
    forms = {
        evidence: re.findall(
            rf"\.num\[data-evidence={evidence}\]\{{text-decoration-style:(\w+)", CSS
        )
        for evidence in get_args(Evidence)
    }
    assert all(len(found) == 1 for found in forms.values())
    assert len({found[0] for found in forms.values()}) == len(forms)
