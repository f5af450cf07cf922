import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import type { CitationPacket } from '../packets.ts'
import { Markdown } from './Markdown.tsx'

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
