import { describe, expect, it } from 'vitest'
import type { Gauge } from '../api.ts'
import { offerOf, whenSilent } from './ContextBar.tsx'

const gauge: Gauge = {
  input: 0,
  read: 0,
  budget: 1,
  window: 1,
  estimate: false,
  cached_share: null,
  request_id: null,
  compaction_when: 'pays',
  compaction_at: 1,
  compaction_by: 'threshold',
  compaction_offer: null,
  cache: { ends_at: null, next: 'nothing', at: null, why: '' },
  compacting: false,
  notice: null,
}

describe('what becomes of a silent conversation', () => {
  it('says until when the cache lives and what is due then', () => {
    const cache = { ends_at: '2026-03-01T12:05:00+00:00', next: 'prune', at: '2026-03-01T12:05:00+00:00', why: '' } as const
    const now = new Date('2026-03-01T12:01:00+00:00')
    expect(whenSilent({ ...gauge, cache }, now)).toMatch(/^cached until \d\d:\d\d.*, then pruned$/)
    expect(whenSilent({ ...gauge, cache: { ...cache, next: 'nothing', at: null } }, now)).toMatch(/^cached until [^,]+$/)
  })

  it('says that it has ended', () => {
    const cache = { ends_at: '2026-03-01T12:05:00+00:00', next: 'nothing', at: null, why: '' } as const
    expect(whenSilent({ ...gauge, cache }, new Date(cache.ends_at))).toBe('the cache has ended')
  })

  it('says nothing where nothing is cached', () => {
    expect(whenSilent(gauge)).toBe('')
    expect(whenSilent({ ...gauge, cache: { ends_at: null, next: 'nothing', at: null, why: '' } })).toBe('')
    expect(whenSilent(null)).toBe('')
  })
})

describe('the offer of a compaction', () => {
  const compaction_offer = { saves: 0.1268, share: 0.4137, messages: 10 }

  it('says what it saves', () => {
    expect(offerOf({ ...gauge, compaction_offer })).toBe('Compact now: saves about $0.13 (41 %) over 10 messages')
  })

  it('is not made while one runs, or where little is saved', () => {
    expect(offerOf({ ...gauge, compaction_offer, compacting: true })).toBe('')
    expect(offerOf({ ...gauge, compaction_offer: null })).toBe('')
    expect(offerOf(null)).toBe('')
  })
})
