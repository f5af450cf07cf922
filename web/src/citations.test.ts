import { describe, expect, it } from 'vitest'
import { around, grouped, placeTokens, restoreTokens } from './citations.ts'

function rangesOf(text: string, ...marks: string[]): { start: number; end: number }[] {
  const points = Array.from(text)
  const found: { start: number; end: number }[] = []
  for (const mark of marks) {
    const length = Array.from(mark).length
    const start = points.findIndex((_, at) => points.slice(at, at + length).join('') === mark)
    found.push({ start, end: start + length })
  }
  return found
}

describe('placing citations', () => {
  it('replaces exactly the named ranges, counted in code points', () => {
    const text = '🙂 Größe[1] and 世界 🙂🙂[2], arr[0], [3].'
    const ranges = rangesOf(text, '[1]', '[2]')
    const { text: placed, originals } = placeTokens(text, ranges)
    expect(originals).toEqual(['[1]', '[2]'])
    expect(placed.replace(/\u2E28\uFDD0(\d+)\uFDD0\u2E29/g, '<$1>')).toBe('🙂 Größe<0> and 世界 🙂🙂<1>, arr[0], [3].')
    expect(restoreTokens(placed, originals)).toBe(text)
  })

  it('takes ranges in any order', () => {
    const text = 'a[1]b[2]c'
    const { text: placed, originals } = placeTokens(text, rangesOf(text, '[2]', '[1]'))
    expect(originals).toEqual(['[2]', '[1]'])
    expect(restoreTokens(placed, originals)).toBe(text)
  })

  it('leaves out what cannot be: beyond the text, empty, overlapping', () => {
    const text = 'only [1] here'
    const bad = [
      { start: 5, end: 8 },
      { start: 6, end: 9 },
      { start: 50, end: 53 },
      { start: 3, end: 3 },
      { start: 8, end: 4 },
    ]
    const { text: placed, originals } = placeTokens(text, bad)
    expect(originals).toEqual(['[1]', '', '', '', ''])
    expect(restoreTokens(placed, originals)).toBe(text)
  })

  it('does not believe tokens that a model wrote', () => {
    const { text: placed } = placeTokens('fake \u2E28\uFDD00\uFDD0\u2E29', [])
    expect(placed).not.toContain('\uFDD0')
  })

  it('puts the citations of one place together', () => {
    const cited = [
      { start: 1, end: 7, document: 1 },
      { start: 1, end: 7, document: 2 },
      { start: 9, end: 12, document: 1 },
    ]
    expect(grouped(cited).map((group) => group.items.map((item) => item.document))).toEqual([[1, 2], [1]])
  })

  it('cuts a text at code points', () => {
    expect(around('🙂a🙂b', 1, 3)).toEqual(['🙂', 'a🙂', 'b'])
    expect(around('abc', 2, 99)).toEqual(['ab', 'c', ''])
  })
})
