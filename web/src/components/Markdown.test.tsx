import { renderToStaticMarkup } from 'react-dom/server'
import { beforeAll, describe, expect, it } from 'vitest'
import type { CitationPacket } from '../objects.ts'
import { colours } from './Code.tsx'
import { Markdown } from './Markdown.tsx'
import { katex } from './Maths.tsx'

beforeAll(() => Promise.all([colours.load(), katex.load()]))

/** Cites every `[n]` that `cited` names by its position among them. */
function render(text: string, cited: (at: number) => boolean = () => true, growing = false): string {
  const citations = Array.from(text.matchAll(/\[(\d+)\]/g))
    .filter((_, at) => cited(at))
    .map((match): CitationPacket => {
      const start = Array.from(text.slice(0, match.index)).length
      return {
        type: 'citation',
        n: 1,
        turn_id: 'turn_1',
        model_index: 0,
        block_index: 0,
        document: Number(match[1]),
        start,
        end: start + match[0].length,
        file_id: 'file_1',
        passage_start: 0,
        passage_end: 1,
        page: 3,
        quote: '',
      }
    })
  const sources = { 1: { title: 'manual.pdf', fileId: 'file_1', url: null } }
  return renderToStaticMarkup(<Markdown text={text} citations={citations} sources={sources} growing={growing} />)
}

const simple = (html: string) =>
  html
    .replace(/<button[^>]*data-testid="citation"[^>]*>(\d+)<\/button>/g, '{$1}')
    .replace(/<(\w+)[^>]*>/g, '<$1>')
    .replace(/^<div>|<\/div>$/g, '')

describe('Markdown with citations', () => {
  it('turns the named ranges into buttons and nothing else', () => {
    expect(simple(render('🙂 One[1] two[2], arr[0].', (at) => at < 2))).toBe('<p>🙂 One{1} two{2}, arr[0].</p>')
  })

  it('names document and page', () => {
    expect(render('One[1].')).toContain('aria-label="Source 1: manual.pdf, page 3"')
  })

  it('reads emphasis around a citation as it would around the brackets', () => {
    expect(simple(render('**"cabinet B"**[1] and *it*[2]'))).toBe('<p><strong>&quot;cabinet B&quot;</strong>{1} and <em>it</em>{2}</p>')
    expect(simple(render('**bold [1]** end'))).toBe('<p><strong>bold {1}</strong> end</p>')
  })

  it('works in tables, lists and headings', () => {
    const html = simple(render('# T[1]\n\n- a[1]\n\n| x |\n|---|\n| y[2] |'))
    expect(html).toContain('<h1>T{1}</h1>')
    expect(html).toContain('<li>a{1}</li>')
    expect(html).toContain('<td>y{2}</td>')
  })

  it('leaves code, addresses and HTML as they were written', () => {
    expect(simple(render('`a[1]`'))).toBe('<p><code>a[1]</code></p>')
    expect(simple(render('```\nb[1]\n```'))).toContain('<code>b[1]\n</code>')
    expect(render('[x](https://a.b/c[1])')).toContain('href="https://a.b/c%5B1%5D"')
    expect(simple(render('a <i title="[1]">'))).toBe('<p>a &lt;i title=&quot;[1]&quot;&gt;</p>')
  })

  it('ends a bare address before the citation', () => {
    const html = render('See https://a.b/c[1] there.')
    expect(html).toContain('href="https://a.b/c"')
    expect(simple(html)).toBe('<p>See <a>https://a.b/c</a>{1} there.</p>')
  })
})

describe('Markdown from a model', () => {
  it('loads nothing and runs nothing', () => {
    const html = render('![the pump](https://x.y/p.png) <script>alert(1)</script> [x](javascript:alert(1)) ![p](data:image/png;base64,AA)')
    expect(html).not.toMatch(/<img|<script|javascript:|src=|data:image/)
    expect(html).toContain('href="https://x.y/p.png"')
    expect(simple(html)).toContain('<a>the pump</a>')
  })

  it('never takes back a block that it showed while it grows', () => {
    const text =
      '## Title\n\nOne **bold**, *it* [1].\nTwo\n\n| a | b |\n|---|--:|\n| 1 | 2[1] |\n\n1. one\n   - two\n2. three\n\n' +
      '```js\nlet a = [0]\n```\n\n> quoted\n\n---\n\n![pump](http://a.b/c) and [link](http://a.b) end.'
    let before = 0
    for (let length = 1; length <= text.length; length += 1) {
      const blocks = render(text.slice(0, length), undefined, true).match(/<(?:p|h\d|tr|li|pre|blockquote|hr)\b/g)?.length ?? 0
      expect(blocks, JSON.stringify(text.slice(0, length))).toBeGreaterThanOrEqual(before)
      before = blocks
    }
  })

  it('closes what is still open while it grows', () => {
    expect(simple(render('One **tw', undefined, true))).toBe('<p>One <strong>tw</strong></p>')
    expect(simple(render('One[1] two[2', undefined, true))).toBe('<p>One{1} two</p>')
  })
})

/** Formulas as their TeX in angle brackets, doubled for those that stand alone. */
const formulas = (html: string) =>
  simple(
    html.replace(
      /<span dir="ltr" class="_(inline|block)[^>]*>.*?<annotation encoding="application\/x-tex">(.*?)<\/annotation>.*?(?:<\/span>)+(?=[^<]|<(?!span|\/span))/gs,
      (_, how: string, tex: string) => (how === 'block' ? `⟪${tex}⟫` : `⟨${tex}⟩`),
    ),
  )

describe('Markdown with maths', () => {
  it('is typeset as it was written, whatever Markdown makes of such characters', () => {
    expect(formulas(render('So \\(a_1\\,b_2 * c*d\\) is.'))).toBe('<p>So ⟨a_1\\,b_2 * c*d⟩ is.</p>')
    expect(formulas(render('\\[\n- x\n= y\n\\]'))).toBe('<p>⟪\n- x\n= y\n⟫</p>')
    expect(formulas(render('**Bold $x$** and *it $y$*.'))).toBe('<p><strong>Bold ⟨x⟩</strong> and <em>it ⟨y⟩</em>.</p>')
    expect(formulas(render('中文**$E=mc^2$**中文'))).toBe('<p>中文<strong>⟨E=mc^2⟩</strong>中文</p>')
  })

  it('stands in lists, tables and quotations', () => {
    expect(formulas(render('- a $x$\n- b'))).toContain('<li>a ⟨x⟩</li>')
    expect(formulas(render('| a | b |\n|---|---|\n| $|x|$ | c |'))).toContain('<td>⟨|x|⟩</td>')
    expect(formulas(render('> $$\n> x\n> = y\n> $$'))).toContain('⟪\n x\n = y\n ⟫')
  })

  it('leaves code, addresses and money as they were written', () => {
    expect(simple(render('`$x_1$` and $5 or $6'))).toBe('<p><code>$x_1$</code> and $5 or $6</p>')
    expect(simple(render('```\n\\[x\\]\n```'))).toContain('<code>\\[x\\]\n</code>')
    expect(simple(render('    $x$ as indented code'))).toContain('<code>$x$ as indented code\n</code>')
    expect(render('[x](https://a.b/?q=$x$&y)')).toContain('href="https://a.b/?q=$x$&amp;y"')
    expect(simple(render('a <i title="$x$">'))).toBe('<p>a &lt;i title=&quot;$x$&quot;&gt;</p>')
  })

  it('shows what is no TeX as it was written, and follows no command that loads or runs something', () => {
    expect(simple(render('Bad: $\\frac{1}{$ and \\(\\nothing{x}\\).'))).toBe(
      '<p>Bad: <code>$\\frac{1}{$</code> and <code>\\(\\nothing{x}\\)</code>.</p>',
    )
    const html = render('$\\href{javascript:alert(1)}{x}$ $\\includegraphics{https://x.y/p.png}$ $\\text{<img src=x>}$')
    expect(html).not.toMatch(/<img|href=|src="/)
  })

  it('keeps citations apart', () => {
    expect(formulas(render('So $x$[1] and \\(y\\)[2].'))).toBe('<p>So ⟨x⟩{1} and ⟨y⟩{2}.</p>')
  })

  it('shows no half of a formula while it grows', () => {
    const text = 'With $a_1$ and\n\n$$\n\\frac{a}{b}\n$$\n\nso \\(x\\,y\\) ends.'
    for (let length = 1; length <= text.length; length += 1) {
      const seen = formulas(render(text.slice(0, length), undefined, true)).replace(/<[^>]*>|[⟨⟪][^⟩⟫]*[⟩⟫]/g, '')
      expect(seen, JSON.stringify(text.slice(0, length))).not.toMatch(/[\\$_]/)
    }
  })
})

describe('Markdown with code', () => {
  const code = (language: string, text: string) => render(`\`\`\`${language}\n${text}\n\`\`\``)

  it('colours a language that is known, by its names', () => {
    for (const name of ['python', 'py', 'Python']) expect(code(name, 'def f(): pass')).toContain('<span class="hljs-keyword">def</span>')
    expect(code('toml', 'a = 1')).toContain('hljs-attr')
    expect(code('html', '<b title="x">&amp;</b>')).toMatch(/&lt;<span class="hljs-name">b<\/span>/)
  })

  it('leaves others plain, and every character in its place', () => {
    for (const name of ['', 'brainfog', 'mermaid', 'text']) expect(code(name, 'if <a> & "b"')).toContain('<code>if &lt;a&gt; &amp; &quot;b&quot;\n</code>')
  })

  it('colours the beginning of a huge block', () => {
    const html = code('py', 'def f(): pass\n'.repeat(50_000))
    const coloured = html.split('hljs-keyword').length
    expect(coloured).toBeGreaterThan(2_000)
    expect(coloured).toBeLessThan(10_000)
    expect(html.split('def').length).toBe(50_001)
  })
})

describe('Markdown in both directions', () => {
  it('gives every block its direction: a holder that of its first letter', () => {
    expect(render('مرحبا')).toContain('<p dir="auto">')
    expect(render('# שלום')).toContain('<h1 dir="auto">')
    expect(render('- مرحبا\n- Hello')).toMatch(/<ul dir="rtl">\s*<li dir="rtl">.*<li dir="ltr">/s)
    expect(render('1. Hello\n\n   مرحبا')).toMatch(/<ol dir="ltr">\s*<li dir="ltr">\s*<p dir="auto">/)
    expect(render('> «مرحبا»')).toContain('<blockquote dir="rtl">')
    expect(render('| `x` | الاسم |\n|--|--|\n| 1 | b |')).toMatch(/<table dir="rtl">.*<td dir="auto">/s)
    expect(render('`npm i` مرحبا $x$')).toMatch(/<code dir="ltr">.*<span dir="ltr"/)
  })

  it('reads code from the left, and plain text in it by its lines', () => {
    expect(render('```py\nx = "مرحبا"\n```')).toContain('<pre tabindex="0" dir="ltr">')
    expect(render('```\nمرحبا\n```')).toContain('<pre tabindex="0" dir="auto">')
    expect(render('```text\nمرحبا\n```')).toContain('<pre tabindex="0" dir="auto">')
  })
})
