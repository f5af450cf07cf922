import { describe, expect, it } from 'vitest'
import { packet, packets, usage } from './example.test-data.ts'
import { stateOf } from './components/ToolCall.tsx'
import { emptyTurn, outcomeOf, reduce, replay, type ToolBlock, type TurnView } from './turn.ts'

function shapeOf(view: TurnView): string[] {
  return view.runs[0]!.blocks.map((block) => `${block.kind}: ${block.kind === 'tool' ? block.args : block.text}`)
}

describe('the reducer', () => {
  it('builds the answer in the order of its blocks', () => {
    const view = replay(packets)
    expect(shapeOf(view)).toEqual([
      'reasoning: Look into the manual.',
      'text: I look it up.',
      'tool: {"file":"manual.pdf"}',
      'text: Every 400 hours [1].',
    ])
    expect(view).toMatchObject({ outcome: 'finished', ended: true, cost: 0.02, usage, last: 35 })
    expect(replay(packets.slice(0, 1)).sources[1]?.title).toBe('manual.pdf')
    expect(view.sources[1]).toEqual({ title: 'manual.pdf', fileId: 'file_1', url: null })
    expect(view.requests).toMatchObject([{ id: 'req_1', usage, cost: 0.01, budget: 8000 }])
    expect(view.degraded).toEqual([{ subject: 'annex.pdf', why: 'does not fit' }])
    expect(view.runs[0]).toMatchObject({ model: 'model-a', finished: true })
  })

  it('says that the record has expired and shows the answer of the messages', () => {
    const told = packet(2, { type: 'packets.expired', expired_at: '2026-03-01T12:00:00+00:00', kept_days: 30 })
    const view = replay([...packets.slice(0, 1), told, ...packets.slice(1)])
    const why = 'The record of this turn expired on 2026-03-01, after 30 days. Its messages are kept.'
    expect(view.degraded).toContainEqual({ subject: 'record', why })
    expect(view).toMatchObject({ outcome: 'finished', ended: true })
  })

  it('shows the same live, reloaded in the middle, and replayed from the start', () => {
    const whole = replay(packets)
    for (let cut = 0; cut <= packets.length; cut += 1) {
      const live = replay(packets.slice(0, cut))
      expect(replay(packets.slice(cut), live)).toEqual(whole)
      // A resumed stream may repeat what was seen.
      expect(replay(packets, live)).toEqual(whole)
    }
  })

  it('never changes an earlier view', () => {
    let view = emptyTurn
    const seen: [TurnView, string][] = []
    for (const one of packets) {
      seen.push([view, JSON.stringify(view)])
      view = reduce(view, one)
    }
    for (const [old, text] of seen) expect(JSON.stringify(old)).toBe(text)
  })

  it('tells stopped, interrupted and failed apart', () => {
    const ended = (...bodies: Parameters<typeof packet>[1][]) =>
      replay(bodies.map((body, index) => packet(index + 1, body))).outcome
    const finished = (status: string) => ({ type: 'turn.finished' as const, status, usage, cost: 0 })
    expect(ended({ type: 'turn.stopped', reason: 'user_cancelled' }, finished('stopped'))).toBe('stopped')
    expect(ended({ type: 'turn.stopped', reason: 'interrupted' }, finished('interrupted'))).toBe('interrupted')
    expect(ended({ type: 'turn.stopped', reason: 'interrupted' }, finished('stopped'))).toBe('interrupted')
    expect(ended({ type: 'error', error: { message: 'No.' } }, finished('failed'))).toBe('failed')
    expect(ended(finished('finished'))).toBe('finished')
  })

  it('keeps two models apart', () => {
    const view = replay([
      packet(1, { type: 'text.delta', model_index: 1, block_index: 0, text: 'B' }),
      packet(2, { type: 'text.delta', model_index: 0, block_index: 0, text: 'A' }),
      packet(3, { type: 'text.delta', model_index: 1, block_index: 0, text: 'b' }),
    ])
    expect(view.runs.map((run) => run.blocks.map((block) => block.kind === 'text' && block.text))).toEqual([['A'], ['Bb']])
  })

  it('lets one of several models fail, another be stopped, and the turn end well', () => {
    const error = { message: 'The provider refused.', hint: 'Check the key.' }
    const some = [
      packet(1, { type: 'run.started', model_index: 0, run_id: 'run_a', model: 'a' }),
      packet(2, { type: 'run.started', model_index: 1, run_id: 'run_b', model: 'b' }),
      packet(3, { type: 'run.started', model_index: 2, run_id: 'run_c', model: 'c' }),
      packet(4, { type: 'error', model_index: 1, error }),
      packet(5, { type: 'run.finished', model_index: 1, run_id: 'run_b', status: 'error', error, usage, cost: 0 }),
      packet(6, { type: 'text.delta', model_index: 0, block_index: 0, text: 'A' }),
      packet(7, { type: 'run.finished', model_index: 2, run_id: 'run_c', status: 'user_cancelled', usage, cost: 0 }),
      packet(8, { type: 'run.finished', model_index: 0, run_id: 'run_a', status: 'end_turn', usage, cost: 0.01 }),
      packet(9, { type: 'turn.finished', status: 'finished', usage, cost: 0.01 }),
    ]
    const outcomes = (view: TurnView) => view.runs.map((run) => outcomeOf(view, run))
    for (const until of [4, 5, 6]) {
      const view = replay(some.slice(0, until))
      expect(view).toMatchObject({ outcome: 'running', error: null })
      expect(outcomes(view)).toEqual(['running', 'failed', 'running'])
    }
    const view = replay(some)
    expect(view).toMatchObject({ outcome: 'finished', error: null })
    expect(outcomes(view)).toEqual(['finished', 'failed', 'stopped'])
    expect(view.runs).toMatchObject([{ id: 'run_a', cost: 0.01, usage, error: null }, { id: 'run_b', error }, { id: 'run_c' }])
  })

  it('tells that a turn cannot be saved yet, until it is', () => {
    const error = { message: 'The answer could not be saved yet.' }
    const some = [
      packet(1, { type: 'run.started', run_id: 'run_a', model: 'a' }),
      packet(2, { type: 'run.finished', run_id: 'run_a', status: 'end_turn', usage, cost: 0 }),
      packet(3, { type: 'error', error }),
    ]
    const waiting = replay(some)
    expect(waiting).toMatchObject({ outcome: 'running', error, runs: [{ error: null }] })
    const saved = reduce(waiting, packet(4, { type: 'turn.finished', status: 'finished', usage, cost: 0 }))
    expect(saved).toMatchObject({ outcome: 'finished', error: null })
  })

  it('ends the answers that a stop or a crash of the turn cut off', () => {
    const begun = [packet(1, { type: 'run.started', run_id: 'run_a', model: 'a' })]
    for (const [reason, outcome] of [['user_cancelled', 'stopped'], ['interrupted', 'interrupted']] as const) {
      const cut = packet(2, { type: 'turn.stopped', reason })
      const view = replay([...begun, cut, packet(3, { type: 'turn.finished', status: outcome, usage, cost: 0 })])
      expect(outcomeOf(view, view.runs[0]!)).toBe(outcome)
    }
  })

  it('shows a tool result whose call it did not see', () => {
    const result = { type: 'tool.result' as const, call_id: 'x', name: 'search', content: 'No.', is_error: true }
    expect(replay([packet(1, result)]).runs[0]!.blocks).toMatchObject([{ kind: 'tool', name: 'search', result: { content: 'No.', isError: true } }])
  })

  it('follows a call from the question to the user to its result', () => {
    const asked = { type: 'tool.approval' as const, call_id: 'x', name: 'pay', arguments: '{"sum":5}' }
    const result = { type: 'tool.result' as const, call_id: 'x', name: 'pay', content: 'Paid.', is_error: false, seconds: 0.2 }
    const said = (approved: boolean) => packet(2, { type: 'tool.verdict', call_id: 'x', approved })
    const block = (...more: Parameters<typeof replay>[0][]) =>
      replay([packet(1, asked), ...more.flatMap((one) => [...one])]).runs[0]!.blocks[0] as ToolBlock
    expect(block().args).toBe('{"sum":5}')
    expect(stateOf(block(), false)).toBe('waiting')
    expect(stateOf(block(), true)).toBe('not-run')
    expect(stateOf(block([said(true)]), false)).toBe('running')
    expect(stateOf(block([said(true)]), true)).toBe('no-result')
    expect(stateOf(block([said(true), packet(3, result)]), true)).toBe('finished')
    expect(stateOf(block([said(false), packet(3, { ...result, is_error: true, seconds: null })]), true)).toBe('denied')
  })

  it('says that a call is the caller\'s to run', () => {
    const handed = { type: 'tool.handed_out' as const, call_id: 'x', name: 'read', arguments: '{"name":"a"}' }
    const block = replay([packet(1, { type: 'tool.call', call_id: 'x', name: 'read' }), packet(2, handed)]).runs[0]!.blocks[0] as ToolBlock
    expect(block.args).toBe('{"name":"a"}')
    expect(stateOf(block, true)).toBe('handed-out')
  })

  it('passes over packets of a newer server', () => {
    expect(reduce(emptyTurn, packet(7, { type: 'compaction.started' as never }))).toEqual({ ...emptyTurn, last: 7 })
  })
})
