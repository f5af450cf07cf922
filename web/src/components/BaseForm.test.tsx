import type { KnowledgeDocument } from '../objects.ts'
import { describe, expect, it } from 'vitest'
import { embedderName, progressOf } from '../knowledge.ts'
import { changedIn } from './BaseForm.tsx'

const value = { name: 'Prices', description: '', visible: false, hint: '', keywords: [], summary: 'Of tools.', topics: ['tools'] }

describe('what is sent of a base', () => {
  it('is its name and what was changed, so that a model keeps its own words', () => {
    expect(changedIn({ ...value, hint: 'Ask for a tool.' }, value)).toEqual({ name: 'Prices', hint: 'Ask for a tool.' })
    expect(changedIn({ ...value, topics: [] }, value)).toEqual({ name: 'Prices', topics: [] })
  })
})

describe('the words for a document', () => {
  const document = { state: 'embedding', embedded: 3, passages: 9, searchable_version: 1 } as KnowledgeDocument
  it('say how far it is', () => {
    expect(progressOf(document)).toBe('3 of 9 passages have vectors')
    expect(progressOf({ ...document, state: 'ready' })).toBe('ready, 9 passages')
    expect(progressOf({ ...document, state: 'failed' })).toContain('the one before is found')
    expect(progressOf({ ...document, state: 'failed', searchable_version: null })).toBe('could not be read')
  })
  it('call the embedder that knows no meaning lexical', () => {
    expect(embedderName('lexical-1-384')).toBe('lexical')
    expect(embedderName('minilm-l6-v2')).toBe('minilm-l6-v2')
  })
})
