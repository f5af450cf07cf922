import { describe, expect, it } from 'vitest'
import type { CommandKind, Session, Told } from './api.ts'
import { awaitsCompaction, beside, completed, completions, isCommand } from './commands.ts'

const kinds: CommandKind[] = [
  { name: 'status', usage: '/status', summary: '' },
  { name: 'compact', usage: '/compact [focus]', summary: '' },
  { name: 'context', usage: '/context', summary: '' },
]

function command(id: string, name: string, turn: string | null, data = {}): Told {
  return { object: 'command', id, turn_id: turn, name, argument: '', answer: '', data, at: '' }
}

function notification(id: string, name: string): Told {
  return { object: 'notification', id, turn_id: 'turn_1', name, text: '', data: {}, at: '' }
}

function session(number: number, begins_after: string | null): Session {
  const rest = { current: false, parent_id: null, opened_at: '', opened_by: 'new', why: '', summary: null, numbers: {} }
  return { id: `sess_${number}`, number, begins_after, ...rest }
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

  it('says whether a compaction is still awaited', () => {
    const asked = command('note_1', 'compact', 'turn_1', { started: true })
    expect(awaitsCompaction([])).toBe(false)
    expect(awaitsCompaction([command('note_1', 'compact', 'turn_1', { started: false })])).toBe(false)
    expect(awaitsCompaction([asked, command('note_2', 'status', 'turn_1')])).toBe(true)
    expect(awaitsCompaction([asked, notification('note_2', 'pruned')])).toBe(true)
    expect(awaitsCompaction([asked, notification('note_2', 'compacted')])).toBe(false)
    expect(awaitsCompaction([asked, notification('note_2', 'not_compacted')])).toBe(false)
  })
})
