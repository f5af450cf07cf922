"""What an answer is read in: maths, coloured code, texts from the right, and figures that keep to their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

WIDTHS = [390, 1280]

MATHS = r"""So \(\int_0^1 x\,dx = \frac12\), with $a_1$ and $b_1$:

\[
A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
\]

| norm | limit |
|---|---|
| $|x|$ | $\lim_{n\to\infty} x_n$ |

It costs $5 or $6, `$code_1$` stays, and $\nothing{x}$ too.

$$ f(x) = a_0 + a_1 x + a_2 x^2 + a_3 x^3 + a_4 x^4 + a_5 x^5 + a_6 x^6 + a_7 x^7 + a_8 x^8 + a_9 x^9 + a_{10} x^{10} $$

The end."""

CODE = """```python
# A comment
@decorated
class Point:
    def norm(self) -> float:
        return abs(self.x) + 0.5 if "text" else None
```

```html
<a href="x">y</a>
```

```brainfog
if plain
```
"""

ARABIC = """# مقدمة

لغة **بايثون** سهلة.

`npm install` يثبت الحزم.

- عنصر أول
- An English item

> اقتباس قديم

| الاسم | المدينة |
|---|---|
| أحمد | Cairo |

An English paragraph."""


@pytest.fixture
def says(model: Model) -> Iterator[Callable[[str], None]]:
    """Sets what the model answers from now on."""

    def set_reply(text: str) -> None:
        httpx2.post(f"{model.url}/_sim/replies", json={"read": {"text": text}}).raise_for_status()
        httpx2.post(f"{model.url}/_sim/settings", json={"default_reply": "read"}).raise_for_status()

    yield set_reply
    httpx2.post(f"{model.url}/_sim/settings", json={"default_reply": None}).raise_for_status()


def answered(page: Page, server: Server, question: str = "Hello") -> Locator:
    page.goto(server.url)
    ask(page, question)
    expect(answers(page)).to_have_count(1)
    return answers(page)


def assets(watched: Watched, name: str) -> list[str]:
    return [url for url in watched.asked if f"/assets/{name}" in url]


@pytest.mark.parametrize("width", WIDTHS)
def test_maths_is_typeset_from_files_of_this_server(
    page: Page, server: Server, says: Callable[[str], None], watched: Watched, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    says("No formula here, for $5.")
    answered(page, server)
    assert assets(watched, "katex") == [], "nobody needed it yet"
    says(MATHS)
    ask(page, "And in formulas?")
    expect(answers(page)).to_have_count(2)
    answer = answers(page).last
    expect(part(answer, "maths")).to_have_count(7)
    expect(answer.locator("annotation").first).to_have_text(r"\int_0^1 x\,dx = \frac12")
    expect(answer).to_contain_text("It costs $5 or $6, $code_1$ stays")
    expect(part(answer, "maths-written")).to_have_text(r"$\nothing{x}$")
    expect(answer.locator("td").first.locator(".katex")).to_be_visible()
    page.wait_for_function("() => document.fonts.status === 'loaded' && document.fonts.check('16px KaTeX_Main')")
    assert assets(watched, "KaTeX_Main-Regular")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('[data-testid=thread]').scrollWidth") <= width
    assert watched.complaints == []


def test_maths_that_is_being_written_is_never_seen_in_parts(
    page: Page, server: Server, model: Model, says: Callable[[str], None]
) -> None:
    says(MATHS)
    page.goto(server.url)
    page.evaluate(
        """() => {
          window.seen = new Set()
          const look = () => {
            const answer = document.querySelector('[data-testid=message-assistant]')?.cloneNode(true)
            answer?.querySelectorAll('[data-testid^=maths], code, footer').forEach((one) => one.remove())
            for (const sign of answer?.textContent.match(/\\$(?!\\d)|[\\\\_^]/g) ?? []) window.seen.add(sign)
          }
          new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true })
        }"""
    )
    model.pace(400)
    ask(page, "In formulas, please")
    expect(answers(page)).to_contain_text("The end.")
    expect(answers(page)).to_have_count(1)
    assert page.evaluate("[...window.seen]") == []


def test_code_is_coloured_to_be_read_by_day_and_by_night(
    page: Page, server: Server, says: Callable[[str], None], watched: Watched
) -> None:
    says(CODE)
    page.emulate_media(color_scheme="light")
    answer = answered(page, server)
    blocks = answer.locator("pre")
    expect(blocks.first.locator(".hljs-keyword").first).to_have_text("class")
    expect(blocks.nth(1).locator(".hljs-name").first).to_have_text("a")
    assert blocks.nth(2).locator("span").count() == 0
    assert blocks.first.inner_text().startswith("# A comment\n@decorated\nclass Point:\n    def norm")
    colours = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours[scheme] = page.evaluate(
            """() => [...document.querySelectorAll('pre [class^=hljs]')].map((one) => [
              getComputedStyle(one).color, getComputedStyle(one.closest('pre').parentElement).backgroundColor])"""
        )
        for colour, paper in colours[scheme]:
            assert contrast(colour, paper) >= 4.5, (scheme, colour, paper)
    assert all(light != dark for light, dark in zip(colours["light"], colours["dark"], strict=True))
    assert watched.complaints == []


def contrast(one: str, other: str) -> float:
    """How much two `rgb(…)` differ in brightness, as WCAG reckons it."""
    light, dark = sorted((brightness(one), brightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def brightness(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_huge_block_of_code_is_whole_and_leaves_the_page_alive(
    page: Page, model: Model, says: Callable[[str], None], tmp_path: Path
) -> None:
    environment = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": model.url, "LAMELLA_MAX_OUTPUT": "120k"}
    lines = 6_000
    says("```python\n" + "value = call(1, 'text')  # why\n" * lines + "```\n\nThe end.")
    with running(Server(tmp_path, environment)) as server:
        page.goto(server.url)
        ask(page, "All of it, please")
        expect(page.get_by_text("The end.", exact=True)).to_be_attached()
        expect(answers(page).locator(".hljs-comment").first).to_be_attached()
        assert answers(page).locator("pre").inner_text().count("value = call(1, 'text')  # why") == lines
        assert answers(page).locator("pre span").count() < lines
        part(page, "composer").fill("Still here")
        expect(part(page, "composer")).to_have_value("Still here")


EDGES = """(element) => {
  const range = document.createRange()
  range.selectNodeContents(element)
  const text = range.getBoundingClientRect(), box = element.getBoundingClientRect()
  return { left: text.left - box.left, right: box.right - text.right }
}"""


def begins_right(block: Locator) -> bool:
    edges = block.evaluate(EDGES)
    return bool(edges["right"] < 2 < edges["left"])


@pytest.mark.parametrize("width", WIDTHS)
def test_each_block_is_read_from_the_side_of_its_first_letter(
    page: Page, server: Server, says: Callable[[str], None], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    says(ARABIC)
    answer = answered(page, server, "سؤال قصير\nAn English line")
    for block in ("h1", "p >> nth=0", "p >> nth=1", "li >> nth=0", "th >> nth=0"):
        assert begins_right(answer.locator(block)), block
    for block in ("li >> nth=1", "p >> nth=-1"):
        assert not begins_right(answer.locator(block)), block
    quote = answer.locator("blockquote")
    assert quote.evaluate("one => getComputedStyle(one).borderRightWidth") == "3px"
    places = answer.locator("th").evaluate_all("all => all.map((one) => one.getBoundingClientRect().x)")
    assert places == sorted(places, reverse=True), "columns go from right to left"
    assert begins_right(answer.locator("td").nth(1)) == begins_right(answer.locator("td").nth(0))

    question = part(page, "message-user").locator("[dir=auto]")
    assert question.evaluate("one => getComputedStyle(one).unicodeBidi") == "plaintext", "each line by itself"
    part(page, "composer").fill("שלום")
    assert part(page, "composer").evaluate("one => getComputedStyle(one).direction") == "rtl"
    part(page, "composer").fill("Hello")
    assert part(page, "composer").evaluate("one => getComputedStyle(one).direction") == "ltr"
    title = page.locator("header h1[dir=auto]")
    expect(title).to_contain_text("سؤال")
    assert title.evaluate("one => getComputedStyle(one).direction") == "rtl"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("panel", ["sessions", "context"])
@pytest.mark.parametrize("width", [390, 1101, 1280, 1400])
def test_the_figures_under_the_composer_keep_to_the_chat(
    page: Page, server: Server, model: Model, width: int, panel: str
) -> None:
    page.set_viewport_size({"width": width, "height": 860})

    def full(route: Route) -> None:
        answer = route.fetch()
        cache = {"ends_at": "2099-01-01T22:59:00Z", "next": "compact", "at": None, "why": "It ends."}
        figures = {"input": 912_345, "read": 812_345, "budget": 984_000, "estimate": True, "compaction_at": 976_000}
        route.fulfill(response=answer, json={**answer.json(), **figures, "cache": cache})

    page.route("**/context", full)
    answered(page, server)
    expect(part(page, "context-bar")).to_contain_text("912k / 984k")
    part(page, f"{panel}-open").click()
    expect(page.locator("[data-side-panel]")).to_be_visible()
    bar = part(page, "context-bar")
    inside = bar.evaluate(
        """(bar) => [...bar.querySelectorAll('span, div')].map((one) => one.getBoundingClientRect().right)
          .every((right) => right <= bar.getBoundingClientRect().right + 0.5)"""
    )
    assert inside
    if width > 1100:
        beside, chat = page.locator("[data-side-panel]").bounding_box(), bar.bounding_box()
        assert beside is not None
        assert chat is not None
        assert chat["x"] + chat["width"] <= beside["x"]
