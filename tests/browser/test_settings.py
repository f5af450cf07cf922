"""Agents, projects, the system prompt, layouts, pictures and previews on the page, against real servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from .pictures import write_picture
from .servers import Server, Watched
from .steps import answers, ask, attach, choose, letters, part, segment

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.txt"
    path.write_text("The weaving mill gets forty new looms in March.\n" * 40)
    return path


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "loom.png"
    path.write_bytes(write_picture())
    return path


def create_agent(page: Page, name: str, prompt: str, layout: str = "") -> None:
    part(page, "agents-open").click()
    part(page, "agent-new").click()
    form = part(page, "agent-form")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Prompt", exact=True).fill(prompt)
    form.get_by_label("Reminder").fill("Worst first.")
    if layout:
        choose(form.get_by_label("Layout"), layout)
    part(form, "save").click()
    expect(part(page, "agent-item").filter(has_text=name)).to_be_visible()
    part(page, "new-conversation").click()


def create_project(page: Page, name: str, file: Path) -> None:
    part(page, "projects-open").click()
    part(page, "project-new").click()
    form = part(page, "project-form")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Instructions").fill("The mill stands in Augsburg.")
    part(form, "project-files-input").set_input_files(file)
    expect(form.locator("[data-testid=project-file][data-state=ready]")).to_contain_text("tokens")
    part(form, "save").click()
    expect(part(page, "project-item").filter(has_text=name)).to_contain_text("1 file")
    part(page, "new-conversation").click()


def drawer_of(page: Page) -> Locator:
    """The report of the newest request."""
    part(page, "context-bar").click()
    return part(page, "context-drawer")


def test_an_agent_and_a_project_are_made_and_talked_with(
    page: Page, demo: Server, plan: Path, watched: Watched
) -> None:
    page.goto(demo.url)
    create_agent(page, "Reviewer", "Name every weakness of what you are shown.")
    create_project(page, "Mill", plan)
    choose(part(page, "choose-agent"), "Reviewer")
    choose(part(page, "choose-project"), "Mill")
    ask(page, "How many new looms does the weaving mill get?")
    expect(answers(page)).to_contain_text("forty new looms")
    expect(part(page, "choose-agent")).to_have_text("Reviewer")
    expect(part(page, "choose-project")).to_have_text("Mill")
    drawer = drawer_of(page)
    assert {"S", "CA", "P", "U1"} <= set(letters(drawer))
    agent = segment(drawer, "CA")
    expect(agent).to_contain_text("agent")
    expect(agent).to_have_attribute("data-zone", re.compile("fixed", re.IGNORECASE))
    expect(segment(drawer, "P")).to_be_visible()
    page.keyboard.press("Escape")

    choose(part(page, "choose-agent"), "none")
    expect(part(page, "choose-agent")).to_have_text("none")
    ask(page, "And when?")
    expect(answers(page)).to_have_count(2)
    drawer = drawer_of(page)
    expect(part(drawer, "absent")).to_contain_text("no agent is chosen")
    assert "CA" not in letters(drawer)
    page.reload()
    expect(part(page, "choose-project")).to_have_text("Mill")
    assert watched.complaints == []


def test_another_layout_puts_the_same_things_elsewhere(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    create_agent(page, "Mover", "Name every weakness of what you are shown.")
    choose(part(page, "choose-agent"), "Mover")
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    drawer = drawer_of(page)
    order = letters(drawer)
    assert order.index("CA") < order.index("U1")
    expect(segment(drawer, "CA")).to_have_attribute("data-zone", re.compile("fixed", re.I))
    page.keyboard.press("Escape")

    part(page, "choose-context").click()
    choose(part(page, "choose-layout"), "onyx")
    page.keyboard.press("Escape")
    expect(part(page, "context-popover")).to_have_count(0)
    expect(part(page, "choose-context")).to_have_text("Context: onyx")
    ask(page, "Hello again")
    expect(answers(page)).to_have_count(2)
    drawer = drawer_of(page)
    expect(drawer).to_contain_text("layout onyx")
    order = letters(drawer)
    assert order.index("U1") < order.index("CA") < order.index("U2")


def test_a_message_sent_while_a_choice_is_being_saved_waits_for_it(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)

    def slowly(route: Route) -> None:
        if route.request.method == "PATCH":
            page.wait_for_timeout(1500)
        route.continue_()

    page.route("**/v1/conversations/*", slowly)
    part(page, "choose-context").click()
    choose(part(page, "choose-layout"), "onyx")
    page.keyboard.press("Escape")
    ask(page, "Hello again")
    expect(answers(page)).to_have_count(2)
    expect(drawer_of(page)).to_contain_text("layout onyx")


def test_a_message_is_kept_where_the_choice_before_it_is_refused(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)

    def refuse(route: Route) -> None:
        if route.request.method == "PATCH":
            page.wait_for_timeout(500)
            route.fulfill(status=422, json={"error": {"message": "There is no such layout.", "code": "bad_request"}})
        else:
            route.continue_()

    page.route("**/v1/conversations/*", refuse)
    part(page, "choose-context").click()
    choose(part(page, "choose-layout"), "onyx")
    page.keyboard.press("Escape")
    ask(page, "Hello again")
    expect(page.get_by_text("There is no such layout.")).to_be_visible()
    expect(part(page, "composer")).to_have_value("Hello again")
    expect(part(page, "composer")).to_be_editable()
    expect(answers(page)).to_have_count(1)


def test_an_agent_brings_its_layout(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    create_agent(page, "Onyx reader", "Read closely.", layout="onyx")
    choose(part(page, "choose-agent"), "Onyx reader")
    expect(part(page, "choose-context")).to_have_text("Context: onyx")
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    expect(part(page, "choose-context")).to_have_text("Context: onyx")
    expect(part(drawer_of(page), "segments")).to_be_visible()
    expect(part(page, "context-drawer")).to_contain_text("layout onyx")


def test_a_refused_form_says_so_at_the_field_and_keeps_what_was_written(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    expect(part(page, "composer")).to_be_focused()
    part(page, "agents-open").press("Enter")
    part(page, "agent-new").press("Enter")
    form = part(page, "agent-form")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    form.get_by_label("Prompt", exact=True).fill("Be kind.")
    part(form, "save").click()
    name = form.get_by_label("Name", exact=True)
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_be_focused()
    expect(part(form, "field-problem")).to_have_count(1)
    name.fill("Kind")
    form.get_by_label("Only these").check()
    form.get_by_label("Names of the tools").fill("no_such_tool")
    part(form, "save").click()
    tools = form.get_by_label("Names of the tools")
    expect(tools).to_have_attribute("aria-invalid", "true")
    expect(part(form, "field-problem")).to_contain_text("no_such_tool")
    # A link, a key and the browser's Back ask alike, and the form keeps what was written.
    for leave in (
        part(page, "projects-open").click,
        lambda: page.keyboard.press("Control+Shift+O"),
        lambda: page.evaluate("history.back()"),
    ):
        leave()
        part(page, "confirm").get_by_role("button", name="Cancel").click()
        expect(part(page, "projects-open")).to_be_focused()
        expect(page).to_have_url(f"{demo.url}/agents/new")
        expect(form.get_by_label("Prompt", exact=True)).to_have_value("Be kind.")
    page.evaluate("history.back()")
    part(page, "confirm-action").click()
    expect(page).to_have_url(f"{demo.url}/agents")
    expect(form).to_have_count(0)


def test_an_agent_is_edited_and_deleted(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    create_agent(page, "Short lived", "Be brief.")
    choose(part(page, "choose-agent"), "Short lived")
    part(page, "agent-open").click()
    expect(page).to_have_url(re.compile(r"/agents/agent_\w+$"))
    form = part(page, "agent-form")
    form.get_by_label("Name", exact=True).fill("Shorter lived")
    choose(form.get_by_label("Thinking"), "high")
    part(form, "save").click()
    item = part(page, "agent-item").filter(has_text="Shorter lived")
    part(page, "new-conversation").click()
    expect(part(page, "choose-agent")).to_have_text("Shorter lived")
    part(page, "agents-open").click()
    item.click()
    page.reload()
    expect(form.get_by_label("Prompt", exact=True)).to_have_value("Be brief.")
    expect(form.get_by_label("Thinking")).to_have_text("high")
    part(form, "delete").click()
    part(page, "confirm-action").click()
    expect(part(page, "agent-new")).to_be_visible()
    expect(item).to_have_count(0)
    part(page, "new-conversation").click()
    expect(part(page, "choose-agent")).to_have_text("none")


def test_files_of_a_project_are_removed_and_refused_with_their_reason(
    page: Page, demo: Server, plan: Path, picture: Path, tmp_path: Path
) -> None:
    page.goto(demo.url)
    create_project(page, "Annex", plan)
    part(page, "projects-open").click()
    part(page, "project-item").filter(has_text="Annex").click()
    form = part(page, "project-form")
    noise = tmp_path / "noise.bin"
    noise.write_bytes(bytes(range(256)) * 40)
    part(form, "project-files-input").set_input_files([noise, picture])
    expect(form.locator("[data-testid=project-file][data-state=failed]")).to_have_count(1)
    loom = part(form, "project-file").filter(has_text="loom.png")
    expect(loom).to_contain_text("×")
    expect(part(loom, "thumbnail")).to_be_visible()
    form.get_by_role("button", name="Remove plan.txt").click()
    expect(part(form, "project-tokens")).to_have_text("0 tokens together.")
    part(form, "save").click()
    expect(part(page, "project-item").filter(has_text="Annex")).to_contain_text("1 file")


def test_the_system_prompt_is_written_again_and_taken_back(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    part(page, "admin-open").click()
    form = part(page, "system-form")
    text = form.get_by_label("System prompt")
    shipped = text.input_value()
    assert shipped
    text.fill("You answer in one sentence.")
    form.get_by_label("Note").fill("Brief")
    part(form, "save").click()
    newest = part(page, "prompt-version").first
    expect(newest).to_contain_text("Brief")
    expect(newest).to_contain_text("in use")
    page.go_back()
    # The conversation keeps the version it began with, and says so.
    older = part(page, "prompt-older")
    older.get_by_role("button").click()
    expect(older).to_have_count(0)
    ask(page, "Hello again")
    expect(answers(page)).to_have_count(2)
    drawer = drawer_of(page)
    part(drawer, "segment").filter(has_text="System prompt").get_by_role("button").click()
    expect(part(drawer, "segments")).to_contain_text("You answer in one sentence.")
    page.keyboard.press("Escape")

    part(page, "admin-open").click()
    first = part(page, "prompt-version").last
    first.locator("summary").click()
    part(first, "prompt-back").click()
    expect(text).to_have_value(shipped)
    expect(part(page, "prompt-version").first).to_contain_text("in use")


GIVE = """([bytes, how]) => {
    const data = new DataTransfer()
    data.items.add(new File([new Uint8Array(bytes)], 'loom.png', { type: 'image/png' }))
    const target = document.querySelector('[data-testid=composer]')
    const options = { bubbles: true, cancelable: true }
    if (how === 'paste') target.dispatchEvent(new ClipboardEvent('paste', { ...options, clipboardData: data }))
    else for (const name of ['dragenter', 'dragover', 'drop'])
        target.dispatchEvent(new DragEvent(name, { ...options, dataTransfer: data }))
}"""


@pytest.mark.parametrize("how", ["paste", "drop", "button"])
def test_a_picture_is_shown_and_sent(page: Page, demo: Server, picture: Path, watched: Watched, how: str) -> None:
    page.goto(demo.url)
    expect(part(page, "choices")).to_be_visible()
    if how == "button":
        attach(page, picture)
    else:
        page.evaluate(GIVE, [list(picture.read_bytes()), how])
    thumbnail = part(page, "thumbnail")
    expect(thumbnail).to_have_attribute("alt", "loom.png")
    assert thumbnail.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    ask(page, "What is to be seen?")
    expect(answers(page)).to_have_count(1)
    shown = part(page, "message-user").get_by_role("img", name="loom.png")
    assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    # The demonstration has no eyes, and the report says so.
    expect(part(drawer_of(page), "notes")).to_contain_text("sees no pictures")
    page.reload()
    expect(part(page, "message-user").get_by_role("img", name="loom.png")).to_be_visible()
    assert watched.complaints == []


def test_a_preview_shows_what_would_be_sent_and_sends_nothing(page: Page, demo: Server, manual: Path) -> None:
    page.goto(demo.url)
    part(page, "preview-open").click()
    preview = part(page, "preview")
    expect(preview).to_contain_text("Write a message")
    page.keyboard.press("Escape")
    attach(page, manual)
    ask(page, "How often is the cooling pump serviced?")
    expect(answers(page)).to_have_count(1)
    part(page, "composer").fill("Where are the spare filters kept?")
    part(page, "preview-open").click()
    assert letters(preview)[-1] == "U2"
    expect(preview).not_to_contain_text("Billed")
    # The manual was sent before: it is expected from the cache.
    read = part(preview, "segment").filter(has_text="manual.pdf").locator("td").nth(2)
    expect(read).to_have_text(re.compile(r"^[1-9]"))
    segment(preview, "U2").get_by_role("button").click()
    expect(part(preview, "segments")).to_contain_text("spare filters")
    part(page, "composer").fill("Where are the spare belts kept?")
    expect(part(preview, "segments")).to_contain_text("spare belts")
    expect(part(page, "turn")).to_have_count(1)
    page.reload()
    expect(part(page, "turn")).to_have_count(1)


def test_a_preview_of_the_first_message_needs_no_answer(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    part(page, "composer").fill("Hello there, whoever you are")
    part(page, "preview-open").click()
    assert letters(part(page, "preview"))[-1] == "U1"
    expect(part(page, "turn")).to_have_count(0)
    part(page, "composer").press("Enter")
    expect(answers(page)).to_have_count(1)
    expect(part(page, "conversation-item").filter(has_text="whoever you are")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_settings_fit_a_narrow_screen(page: Page, demo: Server, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(demo.url)
    for name in ("agent", "project", "effort", "context"):
        expect(part(page, f"choose-{name}")).to_be_in_viewport()
    for route, control in (
        ("projects", "project-new"),
        ("knowledge", "base-new"),
        ("admin", "system-form"),
        ("settings", "new-key"),
        ("agents", "agent-new"),
    ):
        part(page, "toggle-list").click()
        part(page, f"{route}-open").click()
        expect(part(page, control)).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    part(page, "agent-new").click()
    expect(part(page, "agent-form")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_choices_and_settings_are_reached_by_keyboard(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    expect(part(page, "composer")).to_be_focused()
    reached = []
    for _ in range(6):
        page.keyboard.press("Shift+Tab")
        reached.append(page.evaluate("document.activeElement?.dataset?.testid ?? ''"))
    wanted = ["choose-context", "choose-effort", "choose-project", "choose-agent"]
    assert reached[: len(wanted)] == wanted
    page.keyboard.press("Control+,")
    expect(page).to_have_url(f"{demo.url}/settings")
    expect(page).to_have_title("Settings · Lamella")


def test_a_file_that_does_not_fit_is_named_in_the_turn(page: Page, demo: Server, tmp_path: Path) -> None:
    long = tmp_path / "ledger.txt"
    long.write_text("".join(f"Entry {n}: {n * 7919 % 9973} bales of wool.\n" for n in range(40_000)))
    page.goto(demo.url)
    attach(page, long)
    ask(page, "What is in the ledger?")
    expect(answers(page)).to_have_count(1)
    expect(part(page, "degraded")).to_contain_text("ledger.txt")
    tool = part(page, "tool-call").first
    tool.locator("summary").click()
    expect(tool.locator("pre").last).to_contain_text(re.compile("ledger|Entry"))
    expect(part(drawer_of(page), "notes")).to_contain_text("listed, not included")


def test_preferences_hold_in_this_browser(page: Page, demo: Server, watched: Watched) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    page.goto(f"{demo.url}/settings")
    light = page.evaluate(paper)
    preferences = part(page, "preferences")
    choose(preferences.get_by_label("Theme"), "Dark")
    dark = page.evaluate(paper)
    assert dark != light
    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    before = page.evaluate(size)
    choose(preferences.get_by_label("Text size"), "Large")
    assert page.evaluate(size) > before
    choose(preferences.get_by_label("Send with"), "Ctrl/⌘ + Enter")
    page.reload()
    expect(preferences.get_by_label("Theme")).to_have_text("Dark")
    assert page.evaluate(paper) == dark

    part(page, "new-conversation").click()
    part(page, "composer").fill("One")
    page.keyboard.press("Enter")
    page.keyboard.type("two")
    page.keyboard.press("Control+Enter")
    expect(part(page, "message-user")).to_have_text(re.compile("^One\ntwo"))
    expect(answers(page)).to_have_count(1)
    assert watched.complaints == []


def test_keys_are_listed_and_the_last_message_is_edited_by_one(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    part(page, "composer").press("ArrowUp")
    editor = part(page, "message-editor")
    expect(editor).to_be_focused()
    expect(editor).to_have_value("Hello there")
    editor.fill("Is it? ")
    page.keyboard.press("?")
    expect(editor).to_have_value("Is it? ?")
    expect(part(page, "shortcuts")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(part(page, "shortcuts")).to_contain_text("Search chats, open pages")
    page.keyboard.press("Escape")
    expect(part(page, "shortcuts")).to_have_count(0)


def test_the_list_of_chats_is_one_stop_of_the_tab_key(page: Page, demo: Server) -> None:
    for text in ("First of the keys", "Second of the keys"):
        page.goto(demo.url)
        ask(page, text)
        expect(answers(page)).to_have_count(1)
    links = part(page, "sidebar").locator("[data-chat]")
    assert links.evaluate_all("all => all.filter((one) => one.tabIndex === 0).length") == 1
    links.first.focus()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(part(page, "conversation-rename")).to_be_focused()
    page.keyboard.press("Escape")
    expect(part(page, "conversation-menu").nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("First of the keys")
    part(page, "clients-open").focus()
    page.keyboard.press("Tab")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("Tab")
    expect(part(page, "settings-open")).to_be_focused()
