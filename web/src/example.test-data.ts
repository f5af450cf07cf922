/** The packets of one turn with everything in it, and a client's line, for tests. */

import type { Line, Packet, UsageBody } from './objects.ts'

export const usage: UsageBody = { input: 1000, cache_read: 920, cache_write: 60, fresh: 20, output: 40, reasoning: 8, estimated: false, cache_write_1h: 0, input_estimated: false }

export const line: Line = {
  id: 'conv_1',
  object: 'line',
  client: 'Claude Code 9.9',
  session: 'session-1',
  dialect: 'anthropic',
  label: 'conversation',
  title: 'Hello there',
  model: 'model-a',
  begun_at: '2026-11-21T12:00:00Z',
  at: '2026-11-21T12:10:00Z',
  requests: 4,
  turns: 3,
  breaks: 0,
  lost: 0,
  lost_cost: 0,
  saved: 0,
  compactions: 0,
  context_saved: 0,
  alarm: null,
  usage,
  cost: 0.03,
  request_id: 'req_1',
}

const bodies = [
  {
    type: 'turn.started',
    conversation_id: 'conv_1',
    user_message_id: 'msg_1',
    sent_at: '2026-11-21T12:00:00+01:00',
    documents: [{ document: 1, file_id: 'file_1', title: 'manual.pdf', reason: null }],
  },
  { type: 'run.started', run_id: 'run_1', model: 'model-a' },
  { type: 'source', document: 1, title: 'manual.pdf', file_id: 'file_1', url: null },
  {
    type: 'request.started',
    request_id: 'req_1',
    step: 1,
    purpose: 'answer',
    letters: 'T S F U',
    estimate: 990,
    budget: 8000,
    predicted_read: 900,
  },
  { type: 'context.degraded', subject: 'annex.pdf', why: 'does not fit' },
  { type: 'reasoning.delta', block_index: 0, text: 'Look into ' },
  { type: 'reasoning.delta', block_index: 0, text: 'the manual.' },
  { type: 'text.delta', block_index: 1, text: 'I look it up.' },
  { type: 'tool.call', block_index: 2, call_id: 'call_1', name: 'read_file', renderer: 'generic' },
  { type: 'tool.args.delta', block_index: 2, call_id: 'call_1', json: '{"file":' },
  { type: 'tool.args.delta', block_index: 2, call_id: 'call_1', json: '"manual.pdf"}' },
  { type: 'usage', request_id: 'req_1', usage, cost: 0.01, budget: 8000 },
  { type: 'tool.result', block_index: 2, call_id: 'call_1', name: 'read_file', content: 'Every 400 h', is_error: false },
  { type: 'text.delta', block_index: 3, text: 'Every 400 ' },
  { type: 'text.delta', block_index: 3, text: 'hours [1].' },
  {
    type: 'citation',
    block_index: 3,
    document: 1,
    start: 16,
    end: 19,
    file_id: 'file_1',
    passage_start: 10,
    passage_end: 20,
    page: 3,
  },
  { type: 'run.finished', run_id: 'run_1', status: 'finished' },
  { type: 'turn.finished', status: 'finished', usage, cost: 0.02 },
]

/** Numbered with gaps, as the server may. */
export const packets: Packet[] = bodies.map(
  (body, index) => ({ turn_id: 'turn_1', model_index: 0, block_index: null, n: index * 2 + 1, ...body }) as Packet,
)

export function packet(n: number, body: { type: Packet['type'] } & Record<string, unknown>): Packet {
  return { turn_id: 'turn_1', model_index: 0, block_index: null, n, ...body } as Packet
}
