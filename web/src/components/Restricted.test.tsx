import type { KnowledgeBase, PassageReader, Readiness } from '../objects.ts'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { accessKeys } from '../access.ts'
import { BaseAccess } from './BaseAccess.tsx'
import { levelOf } from './RestrictedLevelForm.tsx'
import { sharesOf } from './RestrictedPreview.tsx'
import { ReadinessShown } from './RestrictedReadiness.tsx'
import { marksOf, shareOf } from './RestrictedUses.tsx'

const ready: Readiness = {
  object: 'restricted_readiness',
  second_model: true,
  word_lists: true,
  documents: 3,
  languages: { en: 2 },
  unknown_language: [],
  headings: [],
  told: [{ field: 'name', text: 'Leases', told: 'Leases.', cuts: [] }],
  terms: ['falcon'],
  answers_per_day: 200,
  short_answers_per_day: 20,
}
const text = (html: string) => html.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')
const said = (patch: Partial<Readiness>, visible = false) => text(renderToStaticMarkup(<ReadinessShown readiness={{ ...ready, ...patch }} visible={visible} />))

describe('what an owner is told before sharing', () => {
  it('is that nothing is missing, with languages, names and bounds', () => {
    expect(said({})).toContain('Nothing is missing.')
    expect(said({})).toContain('3 documents · 2 in English · 1 name found')
    expect(said({})).toContain('at most 200 answers in 24 hours, 20 of them short')
    expect(said({ answers_per_day: 0, short_answers_per_day: 0 })).toContain('as many answers a day as they ask for')
  })
  it('names what the server lacks, the word lists before the second model', () => {
    expect(said({ second_model: false })).toContain('The server has no second model')
    const neither = said({ second_model: false, word_lists: false })
    expect(neither).toContain('Restricted access can’t be granted')
    expect(neither).not.toContain('no second model')
    expect(neither).not.toContain('Nothing is missing')
  })
  it('names what tells something, and what to do', () => {
    const told = [{ field: 'description', text: 'It costs 7.', told: '', cuts: ['figure'] }]
    expect(said({ told })).toContain('Description: It costs 7.')
    expect(said({ told })).toContain('Found: a figure or date. Readers see nothing of it. Say it in general words.')
    expect(said({ told })).not.toContain('Members without any access')
    expect(said({ told }, true)).toContain('Members without any access see name and description as you wrote them')
    expect(said({ unknown_language: ['c.md'] })).toContain('In no language that the guard knows')
    expect(said({ headings: [{ document: 'a.md', heading: 'Falcon', masked: '[name]' }] })).toContain('1 title or heading holds names or figures')
  })
})

const base: KnowledgeBase = {
  id: 'kb_1',
  name: 'Prices',
  description: '',
  visible: false,
  level: 'full',
  is_owner: true,
  object: 'knowledge_base',
  owner_id: 'user_1',
  created_at: '2026-11-21T12:00:00Z',
  updated_at: '2026-11-21T12:00:00Z',
}

function access(readiness: Readiness): string {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } })
  client.setQueryData(accessKeys.grants('kb_1'), [{ id: 'user_2', object: 'grant', kind: 'user', name: 'Bob', level: 'full', by: 'user_1', at: base.created_at, warning: null }])
  client.setQueryData(accessKeys.names, [{ id: 'user_3', object: 'user', name: 'Carl' }])
  client.setQueryData(['knowledge-bases', 'kb_1', 'missing'], readiness)
  const shown: ReactNode = <BaseAccess base={base} />
  return renderToStaticMarkup(<QueryClientProvider client={client}>{shown}</QueryClientProvider>)
}

describe('the access of a base', () => {
  it('warns before a grant that opens nothing or is refused', () => {
    expect(text(access(ready))).not.toContain('second model')
    expect(text(access({ ...ready, second_model: false }))).toContain('The server has no second model')
    expect(text(access({ ...ready, word_lists: false }))).toContain('Restricted access can’t be granted')
  })
})

describe('the level', () => {
  const half = { name: ' Notice ', choices: ['a month', '', ' longer '] }
  it('is sent with whole lines', () => {
    expect(levelOf({ restricted_level: 'form', contact: '', form: [half] }).form).toEqual([{ name: 'Notice', choices: ['a month', 'longer'] }])
  })
  it('keeps an unfinished field only where the server can say what is missing', () => {
    const open = { name: '', choices: [] }
    expect(levelOf({ restricted_level: 'summary', contact: '', form: [half, open] }).form).toHaveLength(1)
    expect(levelOf({ restricted_level: 'form', contact: '', form: [half, open] }).form).toHaveLength(2)
  })
})

it('marks what went out of a passage, and says how much it is', () => {
  const reader: PassageReader = { user_id: 'user_2', name: 'Bob', words: 2, out_of: 7, most: 2 / 7, covered: [[4, 9], [20, 26]], disclosures: [] }
  expect(marksOf(reader)).toEqual([{ start: 4, end: 9 }, { start: 20, end: 26 }])
  expect(shareOf(reader)).toBe('2 of 7 words, 29 % of one sentence at most')
})

it('says the shares of a preview', () => {
  const one = { safe: { decision: 'refuse' }, sentences: [{ said: 'It is 7.', released: '' }] }
  const found = { data: [one], refused: 1, cut: 1, not_asked: [] } as unknown as Parameters<typeof sharesOf>[0]
  expect(sharesOf(found)).toBe('1 of 1 question refused (100 %), 1 of 1 sentence cut (100 %)')
  expect(sharesOf({ ...found, data: [], refused: 0, cut: 0 })).toBe('0 of 0 questions refused (0 %)')
})
