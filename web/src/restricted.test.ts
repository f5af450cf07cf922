import type { RestrictedPreview, RestrictedPreviews, RestrictedTerms, RestrictedUse } from './objects.ts'
import { describe, expect, it } from 'vitest'
import { adviceFor, answersOf, cutText, documentsOf, MOST_ANSWERS, questionsIn, reasonText, rowsOf, together, withTerm } from './restricted.ts'

const terms: RestrictedTerms = {
  object: 'restricted_terms',
  state: 'ready',
  found: [
    { term: 'falcon', kind: 'word', language: 'en', count: 3 },
    { term: 'blue door', kind: 'phrase', language: 'en', count: 1 },
  ],
  confirmed: ['Barn'],
  allowed: ['Falcon'],
}

describe('the names of a base', () => {
  it('are listed once each, those of the owner first', () => {
    expect(rowsOf(terms).map(({ term, state }) => [term, state])).toEqual([
      ['Barn', 'confirmed'],
      ['falcon', 'allowed'],
      ['blue door', 'found'],
    ])
  })
  it('have one state each, however they are written', () => {
    expect(withTerm(terms, 'falcon', 'confirmed')).toEqual({ confirmed: ['Barn', 'falcon'], allowed: [] })
    expect(withTerm(terms, 'barn', 'found')).toEqual({ confirmed: [], allowed: ['Falcon'] })
    expect(withTerm(terms, 'blue door', 'allowed')).toEqual({ confirmed: ['Barn'], allowed: ['Falcon', 'blue door'] })
  })
})

function preview(query: string, released: string[], cut: string[]): RestrictedPreview {
  const answers = released.length > 0
  return {
    object: 'restricted_preview',
    query,
    safe: { decision: answers ? 'answer' : 'refuse', reason: answers ? 'answered' : 'guarded', summary: released.join(' ') },
    said: '',
    sentences: [
      ...released.map((said) => ({ said, released: said, cuts: [], words: [] })),
      ...cut.map((said) => ({ said, released: '', cuts: ['figure'], words: ['7'] })),
    ],
    removed: [],
    confidence: 0.9,
    model: 'second',
    cached: false,
    passages: [],
  }
}

describe('previews', () => {
  const first: RestrictedPreviews = { object: 'restricted_previews', data: [preview('A?', ['Yes.'], ['It is 7.'])], refused: 0, cut: 0.5, not_asked: ['B?'] }
  it('are put together with the shares of all', () => {
    const rest: RestrictedPreviews = { object: 'restricted_previews', data: [preview('B?', [], ['It is 8.'])], refused: 1, cut: 1, not_asked: [] }
    const all = together(first, rest)
    expect(all.data.map(({ query }) => query)).toEqual(['A?', 'B?'])
    expect([all.refused, all.cut, all.not_asked]).toEqual([0.5, 2 / 3, []])
  })
  it('without an answer have shares too', () => {
    expect(together(null, { ...first, data: [] })).toMatchObject({ refused: 0, cut: 0, not_asked: ['B?'] })
  })
  it('are asked for line by line, each question once', () => {
    expect(questionsIn(' A?\n\nB?\nA?\n')).toEqual(['A?', 'B?'])
  })
})

it('finds the documents of an answer by the places of its passages', () => {
  expect(documentsOf({ passage_ids: ['doc_1:0', 'doc_1:1200', 'doc_2:0'] } as RestrictedUse)).toEqual(['doc_1', 'doc_2'])
})

it('counts the answers of a form', () => {
  const field = (count: number) => ({ choices: Array.from({ length: count }, String) })
  expect(answersOf([field(3), field(2)])).toBe(6)
  expect(answersOf([field(32), field(32), field(32), field(32)])).toBe(MOST_ANSWERS)
})

it('says reasons and cuts in words, also those that it does not know', () => {
  expect(reasonText('daily_limit')).toContain('as many answers as a day allows')
  expect(reasonText('another')).toBe('another')
  expect(cutText(['figure', 'another'])).toBe('a figure or date; another')
  expect(adviceFor({ field: 'description', told: '' })).toContain('Readers see nothing of it')
  expect(adviceFor({ field: 'name', told: 'Lease.' })).toContain('Give it a general name')
})
