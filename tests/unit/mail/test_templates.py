"""Templates of mails: what values can do in them, and what they cannot."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2
import pytest

from svc.mail.templates import TemplateFault, compile_template, render


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text, "utf-8")
    return directory


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    return write(
        tmp_path / "mails",
        welcome_txt="Subject: Welcome, {{ name }}\n\nHello {{ name }},\n{% if link %}\n{{ link }}\n{% endif %}\n",
        welcome_html='<p title="{{ name }}">Hello {{ name }}</p>',
        plain_txt="subject:Plain\r\n\r\nText\r\n",
    )


def test_subject_text_and_html(mails: Path) -> None:
    mail = render("welcome", {"name": "Ann", "link": "https://example.org/?a=1&b=2"}, mails)
    assert (mail.subject, mail.html) == ("Welcome, Ann", '<p title="Ann">Hello Ann</p>')
    assert mail.text == "Hello Ann,\nhttps://example.org/?a=1&b=2\n\n".replace("\n\n", "\n")
    assert mail.to("ann@example.org").to == "ann@example.org"


def test_html_is_not_needed(mails: Path) -> None:
    mail = render("plain", {}, mails)
    assert (mail.subject, mail.text.strip(), mail.html) == ("Plain", "Text", None)


def test_a_value_is_no_markup_and_no_header(mails: Path) -> None:
    hostile = '"><script>alert(1)</script>\r\nBcc: eve@example.org\r\n\r\nSubject: other\x00\u2028 {{ 7 * 7 }}'
    mail = render("welcome", {"name": hostile, "link": ""}, mails)
    assert mail.subject == 'Welcome, "><script>alert(1)</script> Bcc: eve@example.org Subject: other {{ 7 * 7 }}'
    assert mail.html is not None and "<script>" not in mail.html and '""' not in mail.html
    assert "{{ 7 * 7 }}" in mail.text and "49" not in mail.text


def test_a_long_subject_is_cut(mails: Path) -> None:
    subject = render("welcome", {"name": "x" * 10_000, "link": ""}, mails).subject
    assert len(subject) == 500 and subject.endswith("...")


def test_a_missing_value_is_an_error(mails: Path) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'name' is undefined"):
        render("welcome", {"link": ""}, mails)


@pytest.mark.parametrize("name", ["", "..", "../secret", "a/../b", "/etc/passwd", "a/b/c", "welcome.txt", "a b", "x" * 101, 5, None])
def test_what_is_no_name(mails: Path, name: str) -> None:
    with pytest.raises(TemplateFault, match="is no name of a template"):
        render(name, {}, mails)


def test_a_template_that_is_not_there(mails: Path, tmp_path: Path) -> None:
    with pytest.raises(TemplateFault, match=r"there is no template of a mail 'other': .*mails/other\.txt or .*more/other\.txt"):
        render("other", {}, mails, None, tmp_path / "more")
    with pytest.raises(TemplateFault, match="no directory"):
        compile_template("other", None)


def test_the_first_line_is_the_subject(mails: Path) -> None:
    write(mails, wrong_txt="Hello\n")
    with pytest.raises(TemplateFault, match="the first line of a mail is its subject"):
        render("wrong", {}, mails)


def test_includes_and_layouts_stay_in_the_directory(mails: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    write(
        mails,
        layout_html="<body>{% block content %}{% endblock %}</body>",
        child_txt="Subject: x\n{% include 'foot.txt' %}",
        child_html="{% extends 'layout.html' %}{% block content %}{{ name }}{% endblock %}",
        foot_txt="-- {{ name }}",
        escape_txt="Subject: x\n{% include '../secret.txt' %}",
        broken_html="{% include 'none.html' %}",
        broken_txt="Subject: x\n",
    )
    mail = render("child", {"name": "<b>"}, mails)
    assert (mail.text, mail.html) == ("-- <b>", "<body>&lt;b&gt;</body>")
    for name in ("escape", "broken"):
        with pytest.raises(jinja2.TemplateNotFound):
            render(name, {"name": ""}, mails)


def test_the_first_directory_counts_and_changes_are_seen(mails: Path, tmp_path: Path) -> None:
    own = write(tmp_path / "own")
    assert render("plain", {}, own, mails).subject == "Plain"
    write(own, plain_txt="Subject: Own\n\nText")
    assert render("plain", {}, own, mails).subject == "Own"
    write(own, plain_txt="Subject: Newer\n\nText")
    os.utime(own / "plain.txt", ns=(1, 1))
    assert render("plain", {}, own, mails).subject == "Newer"


def test_a_fault_names_file_and_line(mails: Path) -> None:
    write(mails, fault_txt="Subject: x\n\n\n{% if %}")
    with pytest.raises(jinja2.TemplateSyntaxError) as raised:
        render("fault", {}, mails)
    assert (raised.value.lineno, raised.value.filename) == (4, str(mails / "fault.txt"))
