import { describe, expect, it } from 'vitest'
import { fenceIn, pieces, steady } from './steady.ts'

describe('text that is still being written', () => {
  it.each([
    ['plain text', 'plain text'],
    ['**bold and', '**bold and**'],
    ['**bold and ', '**bold and**'],
    ['a *word', 'a *word*'],
    ['2 * 3 is', '2 * 3 is'],
    ['some `code', 'some `code`'],
    ['~~gone', '~~gone~~'],
    ['**one** and **two', '**one** and **two**'],
    ['a **', 'a '],
    ['see [the man', 'see '],
    ['see [the manual](https://exa', 'see '],
    ['see [the manual](https://example.com)', 'see [the manual](https://example.com)'],
    ['an ![image](http', 'an '],
    ['as said [1', 'as said '],
    ['as said [1]', 'as said '],
    ['as said [1, 2]', 'as said '],
    ['as said [1] and', 'as said [1] and'],
    ['`arr[0', '`arr[0`'],
    ['A title\n-', 'A title'],
    ['A title\n---', 'A title'],
    ['done.\n\n-', 'done.\n\n'],
    ['done.\n\n1.', 'done.\n\n'],
    ['done.\n\n##', 'done.\n\n'],
    ['done.\n\n``', 'done.\n\n'],
    ['| a | b |', ''],
    ['| a | b |\n', ''],
    ['| a | b |\n|--', ''],
    ['| a | b |\n|---|', ''],
    ['| a | b |\n|---|---|', '| a | b |\n|---|---|'],
    ['| a | b |\n|---|---|\n| 1', '| a | b |\n|---|---|\n| 1'],
    ['```js\nlet a = [', '```js\nlet a = ['],
    ['```js\nlet a\n``', '```js\nlet a\n'],
    ['**whole** paragraph\n\n**next', '**whole** paragraph\n\n**next**'],
  ])('%j is shown as %j', (text, shown) => {
    expect(steady(text)).toBe(shown)
  })

  it('only ever holds back the end', () => {
    const text = 'A **b** [1] `c`\n\n| a |\n|---|\n| 1 |\n\n```\nx\n```\n\n1. one\n2. *two* [l](http://x.y) end.'
    for (let length = 1; length <= text.length; length += 1) {
      const shown = steady(text.slice(0, length))
      const common = shown.replace(/(?:\*\*|\*|`|~~)+$/, '')
      expect(text.startsWith(common.trimEnd()), JSON.stringify(shown)).toBe(true)
    }
    expect(steady(text)).toBe(text)
  })
})

describe('pieces', () => {
  const paragraph = `${'Word '.repeat(60).trim()}.\n\n`

  it('join to the text, whatever it is', () => {
    const text = `${paragraph.repeat(9)}\`\`\`\ncode\n\nmore\n${paragraph.repeat(3)}\`\`\`\n\n${paragraph.repeat(5)}- item\n\n- item\n`
    const cut = pieces(text)
    expect(cut.join('')).toBe(text)
    expect(cut.length).toBeGreaterThan(2)
    for (const piece of cut) expect((piece.match(/```/g) ?? []).length % 2).toBe(0)
  })

  it('stay the same while the text grows', () => {
    const text = paragraph.repeat(20)
    const early = pieces(text.slice(0, 4000))
    const late = pieces(text)
    expect(late.slice(0, early.length - 1)).toEqual(early.slice(0, -1))
  })

  it('part a long fence, and know it, also one that is still being written', () => {
    const code = 'let a = [^1]\n\n'.repeat(300)
    for (const [opening, closing] of [['```js\n', '```\n'], ['~~~~ js title\n', '~~~~~  \n'], ['```js\n', '']]) {
      const text = `${paragraph.repeat(3)}${opening}${code}${closing}${closing && `\nEnd.\n\n${'```\nb\n```\n'}`}`
      const cut = pieces(text)
      expect(cut.join('')).toBe(text)
      expect(cut.map(fenceIn).filter(Boolean)).toEqual([{ code, language: 'js' }])
    }
    expect(pieces(`- item\n  \`\`\`\n  ${code}\n  \`\`\`\n`).map(fenceIn)).toEqual([null])
    expect(fenceIn(`\`\`\`\na\n\`\`\`\n${paragraph.repeat(9)}`)).toBe(null)
  })

  it('do not part what belongs together', () => {
    expect(pieces(`${paragraph.repeat(9)}[one]: https://example.com\n`)).toHaveLength(1)
    expect(pieces(`- item\n\n${'  more\n\n- item\n\n'.repeat(200)}`)).toHaveLength(1)
  })
})
