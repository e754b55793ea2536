"""Diffs of golden files apply to their base, whatever lines repeat, and do not change when other lines of it do."""

from __future__ import annotations

import random

import pytest

from golden_diff import DoesNotApply, apply_diff, base_of, make_diff

BASE = "".join(
    f"int f{i}() {{\n    const int a = {i};\n\n    const int b = a + 1;\n    return b;\n}}\n\n" for i in range(6)
)


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ("", "a\n"),
        ("a\n", ""),
        ("a\n", "a"),
        ("a", "a\n"),
        ("a\nb\n", "c\na\nb\n"),
        ("a\nb\n", "a\nb\nc\n"),
        ("a\n\n\nb\n", "a\n\n\n\nb\n"),
        ("@@ a\n+b\n-c\n d\n", "+b\n@@ a\n d\n--c\n"),
        ("x\n" * 20, "x\n" * 9 + "y\n" + "x\n" * 10),
        (BASE, BASE),
        (BASE, "other\n"),
    ],
)
def test_it_makes_the_text_of_its_base(base: str, text: str) -> None:
    diff = make_diff(text, base, "base.cu")
    assert base_of(diff) == "base.cu"
    assert apply_diff(diff, base) == text


def test_it_makes_texts_of_few_different_lines() -> None:
    rng = random.Random(0)
    for _ in range(300):
        base, text = ("".join(f"{rng.choice('abc{}')}\n" for _ in range(rng.randrange(40))) for _ in range(2))
        assert apply_diff(make_diff(text, base, "base.cu"), base) == text


def test_a_hunk_stands_below_its_heading() -> None:
    text = BASE.replace("const int a = 4;\n\n    const int b = a + 1;", "const int b = 5;")
    assert make_diff(text, BASE, "base.cu") == (
        "base: base.cu\n@@ int f4() {\n-    const int a = 4;\n-\n-    const int b = a + 1;\n+    const int b = 5;\n"
    )


def test_many_removed_lines_are_left_out() -> None:
    text = BASE.replace("f2() {\n    const int a = 2;\n\n    const int b = a + 1;\n    return b;", "g() {\n    h();")
    assert make_diff(text, BASE, "base.cu") == (
        "base: base.cu\n@@ int f1() {\n-int f2() {\n-...\n-    return b;\n+int g() {\n+    h();\n"
    )


def test_it_does_not_change_when_other_lines_of_the_base_do() -> None:
    text = BASE.replace("a = 4", "a = 5").replace("a = 5;\n\n", "a = 5;\n    g();\n\n", 1)
    diff = make_diff(text, BASE, "base.cu")
    for old, new in (("int f1()", "int g();\nint f1()"), ("b", "c")):
        assert make_diff(text.replace(old, new), BASE.replace(old, new), "base.cu") == diff
        assert apply_diff(diff, BASE.replace(old, new)) == text.replace(old, new)


def test_a_base_without_the_lines_is_refused() -> None:
    diff = make_diff(BASE.replace("a = 4", "a = 5"), BASE, "base.cu")
    with pytest.raises(DoesNotApply, match=r"does not have these lines after its line 29: .*const int a = 4"):
        apply_diff(diff, BASE.replace("a = 4", "a = 6"))
