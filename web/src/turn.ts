/** One reducer from packets to what is shown. Live streams and reloaded pages go through it alike. */

import type { Problem } from './http.ts'
import type { BranchRun, CitationPacket, Packet, PathTurn, RunFinished, TurnFinished, UsageBody } from './objects.ts'

export interface ReasoningBlock {
  kind: 'reasoning'
  key: string
  text: string
}

export interface TextBlock {
  kind: 'text'
  key: string
  text: string
  citations: CitationPacket[]
}

export interface ToolBlock {
  kind: 'tool'
  key: string
  callId: string
  name: string
  args: string
  result: { content: string; isError: boolean; seconds: number | null } | null
  /** Of a call that the user is asked about: where to answer, and what was said. */
  approval: { turnId: string; approved: boolean | null } | null
  /** The caller runs it: its result comes with the next turn. */
  handedOut?: boolean
}

export type Block = ReasoningBlock | TextBlock | ToolBlock

export interface RequestView {
  id: string
  step: number
  purpose: string
  letters: string
  estimate: number
  budget: number
  usage: UsageBody | null
  cost: number | null
}

export interface RunView {
  index: number
  /** Empty until the run has said its name. */
  id: string
  model: string
  finished: boolean
  /** Why it ended; null while it runs, and where the turn was cut off. */
  status: string | null
  error: Problem | null
  /** Why its answer is not whole, and what to do; null where it is. */
  partial: { message: string; hint: string } | null
  usage: UsageBody | null
  cost: number | null
  blocks: Block[]
}

export interface Source {
  title: string
  fileId: string | null
  url: string | null
}

/** A document of a message, or of the whole conversation in `turn.started`. */
export interface ShownDocument {
  document: number | null
  file_id: string | null
  title: string
  media_type?: string
  size?: number
  tokens?: number
  reason?: string | null
}

type Told = Omit<PathTurn, 'object' | 'conversation_id' | 'user_message_id' | 'answer' | 'documents' | 'runs' | 'usage' | 'cost'>

/** A turn as the page keeps it: of one that has just begun no bill is known yet. */
export interface ShownTurn extends Told {
  /** The text of the answer; unknown until the server's list has the turn. */
  answer?: string
  documents: ShownDocument[]
  runs: Pick<BranchRun, 'id' | 'model'>[]
  usage: UsageBody | null
  cost: number | null
}

export type Outcome = 'running' | 'finished' | 'stopped' | 'failed' | 'interrupted'

export interface TurnView {
  /** The number of the last packet seen; a repeated packet is ignored. */
  last: number
  outcome: Outcome
  ended: boolean
  sentAt: string | null
  /** The documents of the conversation, of this and earlier messages. */
  documents: ShownDocument[]
  runs: RunView[]
  requests: RequestView[]
  sources: Record<number, Source>
  degraded: { subject: string; why: string }[]
  /** What is wrong with the turn as a whole; what is wrong with one answer stands in its run. */
  error: Problem | null
  usage: UsageBody | null
  cost: number | null
}

export const emptyTurn: TurnView = {
  last: 0,
  outcome: 'running',
  ended: false,
  sentAt: null,
  documents: [],
  runs: [],
  requests: [],
  sources: {},
  degraded: [],
  error: null,
  usage: null,
  cost: null,
}

const emptyRun: RunView = {
  index: 0,
  id: '',
  model: '',
  finished: false,
  status: null,
  error: null,
  partial: null,
  usage: null,
  cost: null,
  blocks: [],
}

/** The view after one more packet. Unknown packets change nothing but the number. */
export function reduce(view: TurnView, packet: Packet): TurnView {
  if (packet.n <= view.last) return view
  return apply({ ...view, last: packet.n }, packet)
}

/** The view after many packets. */
export function replay(packets: Iterable<Packet>, from: TurnView = emptyTurn): TurnView {
  let view = from
  for (const packet of packets) view = reduce(view, packet)
  return view
}

function apply(view: TurnView, packet: Packet): TurnView {
  switch (packet.type) {
    case 'turn.started':
      return { ...view, sentAt: packet.sent_at, documents: packet.documents, sources: sourcesOf(packet.documents) }
    case 'run.started':
      return onRun(view, packet.model_index, (run) => ({ ...run, id: packet.run_id, model: packet.model }))
    case 'model.fallback': {
      const why = `${packet.requested_model} failed, so ${packet.model} answers: ${packet.error.message}`
      const told = { ...view, degraded: [...view.degraded, { subject: 'model', why }] }
      return onRun(told, packet.model_index, (run) => ({ ...run, model: packet.model }))
    }
    case 'request.started': {
      const { request_id: id, step, purpose, letters, estimate, budget } = packet
      const request = { id, step, purpose, letters, estimate, budget, usage: null, cost: null }
      return { ...view, requests: [...view.requests.filter((other) => other.id !== id), request] }
    }
    case 'context.degraded':
      return { ...view, degraded: [...view.degraded, { subject: packet.subject, why: packet.why }] }
    case 'reasoning.delta':
    case 'text.delta':
      return onRun(view, packet.model_index, (run) => ({ ...run, blocks: written(run.blocks, packet) }))
    case 'tool.call':
    case 'tool.args.delta':
    case 'tool.approval':
    case 'tool.verdict':
    case 'tool.handed_out':
    case 'tool.result':
      return onRun(view, packet.model_index, (run) => ({ ...run, blocks: called(run.blocks, packet) }))
    case 'source': {
      const source = { title: packet.title, fileId: packet.file_id, url: packet.url }
      return { ...view, sources: { ...view.sources, [packet.document]: source } }
    }
    case 'citation':
      return onRun(view, packet.model_index, (run) => ({ ...run, blocks: cited(run.blocks, packet) }))
    case 'usage': {
      const { usage, cost, budget } = packet
      const requests = view.requests.map((one) => (one.id === packet.request_id ? { ...one, usage, cost, budget } : one))
      return { ...view, requests }
    }
    case 'answer.partial': {
      const { message, hint } = packet
      return onRun(view, packet.model_index, (run) => ({ ...run, partial: { message, hint } }))
    }
    case 'error':
      return failed(view, packet.model_index, packet.error)
    case 'run.finished':
      return onRun(view, packet.model_index, (run) => ended(run, packet))
    case 'packets.expired': {
      const days = packet.kept_days === 1 ? '1 day' : `${packet.kept_days} days`
      const why = `The record of this turn expired on ${packet.expired_at.slice(0, 10)}, after ${days}. Its messages are kept.`
      return { ...view, degraded: [...view.degraded, { subject: 'record', why }] }
    }
    case 'turn.stopped':
      return { ...view, outcome: packet.reason === 'interrupted' ? 'interrupted' : 'stopped' }
    case 'turn.finished':
      return finished(view, packet)
    default:
      return view
  }
}

/** An error of a run that works is that run's; behind its end, or without one, it is the turn's. Neither ends the turn. */
function failed(view: TurnView, index: number, error: Problem): TurnView {
  const works = view.runs.some((run) => run.index === index && !run.finished)
  return works ? onRun(view, index, (run) => ({ ...run, error })) : { ...view, error }
}

function ended(run: RunView, { run_id: id, status, error, usage, cost }: RunFinished): RunView {
  return { ...run, id, finished: true, status, error: error ?? run.error, usage: usage ?? null, cost: cost ?? null }
}

/** What an earlier packet said of an interruption wins. An error that the turn got over is told no more. */
function finished(view: TurnView, { status, usage, cost }: TurnFinished): TurnView {
  const known = status === 'stopped' || status === 'failed' || status === 'interrupted' ? status : 'finished'
  const cutOff = view.outcome === 'interrupted' || view.outcome === 'stopped'
  const outcome = known === 'failed' || known === 'interrupted' || !cutOff ? known : view.outcome
  return { ...view, ended: true, outcome, usage, cost, error: outcome === 'failed' ? view.error : null }
}

/** What became of one model's answer. A run without an end of its own ended with its turn. */
export function outcomeOf(view: TurnView, run: RunView): Outcome {
  if (run.error !== null || run.status === 'error') return 'failed'
  if (run.status === 'user_cancelled') return 'stopped'
  if (run.status === 'interrupted') return 'interrupted'
  if (run.finished) return 'finished'
  return view.ended ? view.outcome : 'running'
}

/** Every document that the conversation has may be cited; `source` packets add what they know better. */
function sourcesOf(documents: readonly ShownDocument[]): Record<number, Source> {
  const numbered = documents.filter((one) => one.document !== null)
  return Object.fromEntries(numbered.map((one) => [one.document, { title: one.title, fileId: one.file_id, url: null }]))
}

function onRun(view: TurnView, index: number, change: (run: RunView) => RunView): TurnView {
  const known = view.runs.find((run) => run.index === index)
  const run = change(known ?? { ...emptyRun, index })
  const runs = known ? view.runs.map((other) => (other === known ? run : other)) : [...view.runs, run]
  return { ...view, runs: known ? runs : runs.sort((one, two) => one.index - two.index) }
}

function keyOf(packet: Packet, kind: string): string {
  return packet.block_index === null || packet.block_index === undefined ? kind : String(packet.block_index)
}

type Written = Extract<Packet, { type: 'reasoning.delta' | 'text.delta' }>

function written(blocks: Block[], packet: Written): Block[] {
  const kind = packet.type === 'text.delta' ? 'text' : 'reasoning'
  const key = `${kind}-${keyOf(packet, kind)}`
  const at = blocks.findIndex((block) => block.key === key)
  const old = blocks[at]
  if (old && old.kind !== 'tool') return blocks.with(at, { ...old, text: old.text + packet.text })
  const text = packet.text
  return [...blocks, kind === 'text' ? { kind, key, text, citations: [] } : { kind, key, text }]
}

type Called = Extract<Packet, { call_id: string }>

function called(blocks: Block[], packet: Called): Block[] {
  const key = `tool-${packet.call_id}`
  const at = blocks.findIndex((block) => block.key === key)
  const found = blocks[at]
  const name = 'name' in packet ? packet.name : ''
  const old: ToolBlock =
    found?.kind === 'tool' ? found : { kind: 'tool', key, callId: packet.call_id, name, args: '', result: null, approval: null }
  const next = calledBlock(old, packet)
  return found ? blocks.with(at, next) : [...blocks, next]
}

function calledBlock(old: ToolBlock, packet: Called): ToolBlock {
  switch (packet.type) {
    case 'tool.call':
      return { ...old, name: packet.name }
    case 'tool.args.delta':
      return { ...old, args: old.args + packet.json }
    case 'tool.approval':
      return { ...old, name: packet.name, args: packet.arguments, approval: { turnId: packet.turn_id, approved: null } }
    case 'tool.verdict':
      return { ...old, approval: { turnId: packet.turn_id, approved: packet.approved } }
    case 'tool.handed_out':
      return { ...old, name: packet.name, args: packet.arguments, handedOut: true }
    case 'tool.result': {
      const { content, is_error: isError, seconds = null } = packet
      return { ...old, name: packet.name || old.name, result: { content, isError, seconds } }
    }
  }
}

function cited(blocks: Block[], packet: CitationPacket): Block[] {
  const key = `text-${keyOf(packet, 'text')}`
  return blocks.map((block) =>
    block.kind === 'text' && block.key === key ? { ...block, citations: [...block.citations, packet] } : block,
  )
}
