import { describe, expect, it } from 'vitest'
import { packet, packets, usage } from './example.test-data.ts'
import { stateOf } from './components/ToolCall.tsx'
import { emptyTurn, reduce, replay, type ToolBlock, type TurnView } from './turn.ts'

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

  it('passes over packets of a newer server', () => {
    expect(reduce(emptyTurn, packet(7, { type: 'compaction.started' as never }))).toEqual({ ...emptyTurn, last: 7 })
  })
})
