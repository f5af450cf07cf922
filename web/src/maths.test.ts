import { describe, expect, it } from 'vitest'
import cases from '../../tests/agent/maths.json'
import { mathsIn, placeMaths, restoreMaths } from './maths.ts'

describe('finding maths', () => {
  it.each(cases)('finds it where the engine looks for no citations: $text', ({ text, maths, cited }) => {
    const found = mathsIn(text).maths
    expect(found.map(({ start, end }) => text.slice(start, end))).toEqual(maths)
    for (const number of cited) {
      const at = text.indexOf(`[${number}]`)
      expect(found.some(({ start, end }) => start <= at && at < end)).toBe(false)
    }
  })

  it('gives back every character', () => {
    for (const { text } of cases) if (!text.startsWith('>')) expect(restoreMaths(placeMaths(text, false))).toBe(text)
  })

  it('does not believe tokens that a model wrote', () => {
    expect(placeMaths('fake \uFDD10061\uFDD1', false)).not.toContain('\uFDD1')
  })

  it('takes as long as a text is long', () => {
    const long = ['\\(a \\[b $$c ', '$', '$a ', '$$ $ ', '\\', '\\[\n \n', '`\n \n', '` ', '```\n', '$${a ']
    for (const part of long) {
      const began = performance.now()
      mathsIn(part.repeat(20_000))
      mathsIn(part.repeat(20_000), true)
      expect(performance.now() - began, part).toBeLessThan(2_000)
    }
  })
})

describe('maths that is still being written', () => {
  /** What is shown of each beginning, formulas as dots. */
  const shown = (text: string) =>
    Array.from(text, (_, at) => placeMaths(text.slice(0, at + 1), true).replace(/\uFDD1[0-9a-f]*\uFDD1/g, '•'))

  it.each([
    'So \\(a^2 + b_1\\), then \\[\\int_0^1 x\\,dx\n= \\frac12\\] and on.',
    'For $x_1$ and $y$: $$\nA = \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}\n$$\n\nDone with $\\alpha$-rays.',
    '| $|x|$ | b |\n|---|---|\n| $\\frac{a}{b}$ | c |\n',
  ])('is held back until it is whole, and never taken back: %#', (text) => {
    const whole = placeMaths(text, false).replace(/\uFDD1[0-9a-f]*\uFDD1/g, '•')
    for (const beginning of shown(text)) expect(whole.startsWith(beginning), beginning).toBe(true)
  })

  it('shows money, paths and half a page of an unclosed mark all the same', () => {
    expect(placeMaths('It costs $5 and the', true)).toBe('It costs $5 and the')
    expect(placeMaths('Set $HOME to where the data of the server shall lie', true)).toContain('$HOME')
    expect(placeMaths(`$$ ${'word '.repeat(500)}`, true)).toContain('word')
  })

  it('holds back no code', () => {
    expect(placeMaths('```sh\necho $HOME $(x', true)).toBe('```sh\necho $HOME $(x')
    expect(placeMaths('Say `echo $x', true)).toBe('Say `echo $x')
  })
})
