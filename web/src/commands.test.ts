import type { ShownTurn } from './turn.ts'
import { describe, expect, it } from 'vitest'
import type { CommandKind, Session, Notice } from './api.ts'
import { beside, completed, completions, eventsOf, figuresOf, isCommand, keptBy } from './commands.ts'
import { usage } from './example.test-data.ts'

const kinds: CommandKind[] = [
  { object: 'command.kind', name: 'status', usage: '/status', summary: '' },
  { object: 'command.kind', name: 'compact', usage: '/compact [focus]', summary: '' },
  { object: 'command.kind', name: 'context', usage: '/context', summary: '' },
]

function command(id: string, name: string, turn: string | null, data = {}): Notice {
  return { object: 'command', id, conversation_id: 'conv_1', turn_id: turn, name, argument: '', answer: '', data, at: '' }
}

function notification(id: string, at: string): Notice {
  return { object: 'notification', id, conversation_id: 'conv_1', turn_id: 'turn_1', name: 'pruned', text: '', data: {}, at }
}

const turn = (id: string, started_at: string) => ({ id, started_at }) as ShownTurn

function session(number: number, begins_after: string | null, changes: Partial<Session> = {}): Session {
  const rest = { current: false, parent_id: null, opened_at: '', opened_by: 'new' as const, closed_at: null, closed_by: null, why: '', summary: null }
  const figures = { summary_tokens: 0, messages: 0, numbers: {}, check: {}, usage: {} }
  return { id: `sess_${number}`, object: 'session', inherits_summary: false, carried_summaries: null, conversation_id: 'conv_1', number, begins_after, ...rest, ...figures, ...changes }
}

describe('typing a slash', () => {
  it('offers the commands that it may become', () => {
    expect(completions('/', kinds)).toHaveLength(3)
    expect(completions('/Co', kinds).map((one) => one.name)).toEqual(['compact', 'context'])
    for (const text of ['', 'a /co', '/compact x', '//', '/etc/hosts']) expect(completions(text, kinds)).toEqual([])
  })

  it('leaves room for an argument', () => {
    expect(kinds.map(completed)).toEqual(['/status', '/compact ', '/context'])
  })

  it('is no command in a path, or doubled', () => {
    expect(['/status', ' /compact ships', '/STATUS'].every(isCommand)).toBe(true)
    expect(['/etc/hosts', '//status', 'a /status', '/ x'].some(isCommand)).toBe(false)
  })
})

describe('what stands beside the messages', () => {
  it('stands behind its turn', () => {
    const found = beside([command('note_1', 'help', null), command('note_2', 'new', 'turn_1')], [session(1, null), session(2, 'turn_1')])
    expect(found.get('')?.told.map((one) => one.id)).toEqual(['note_1'])
    expect(found.get('')?.began).toEqual([])
    expect(found.get('turn_1')?.began.map((one) => one.number)).toEqual([2])
    expect(found.get('turn_1')?.told.map((one) => one.id)).toEqual(['note_2'])
  })
})

describe('what a session holds', () => {
  const noon = '2026-03-01T12:00:00Z'
  const later = '2026-03-01T12:10:00Z'

  it('names the turns that a compaction left as they are', () => {
    const compacted = session(2, 'turn_1', { opened_at: later })
    const turns = [turn('turn_1', noon), turn('turn_2', '2026-03-01T12:05:00Z'), turn('turn_3', '2026-03-01T12:11:00Z')]
    expect(keptBy(compacted, turns).map((one) => one.id)).toEqual(['turn_2'])
    expect(keptBy(session(2, 'turn_0', { opened_at: later }), turns)).toEqual([])
  })

  it('says what its summary read, and counts nothing else to it', () => {
    const spent = { chat: { ...usage, input: 1_140_000 }, title: { ...usage, input: 2_100 }, summary: { ...usage, input: 57_000 } }
    const compacted = session(2, 'turn_1', { messages: 4, numbers: { before: 3300, after: 1200 }, usage: spent })
    expect(figuresOf(compacted)).toBe('4 messages · 3.3k → 1.2k · 57k tokens read for its summary')
    expect(figuresOf(session(3, 'turn_2', { messages: 1, usage: { chat: usage } }))).toBe('1 message')
  })

  it('is told of while it was open, and not before or after', () => {
    const open = session(1, null, { opened_at: noon, closed_at: later })
    const told = [notification('a', noon), notification('b', later), { ...notification('c', noon), object: 'command' } as Notice]
    expect(eventsOf(open, told).map((one) => one.id)).toEqual(['a'])
    expect(eventsOf(session(2, null, { opened_at: later }), told).map((one) => one.id)).toEqual(['b'])
  })
})
