/** The packets of a turn, as the server sends them: `src/lamella/core/packets.py` is the source of these names. */

export interface UsageBody {
  input: number
  cache_read: number
  cache_write: number
  fresh: number
  output: number
  reasoning: number
  /** The provider did not say all of it. */
  estimated?: boolean
  /** Nor the input: without this only the output is an estimate. */
  input_estimated?: boolean
  /** What of `cache_write` lives for an hour. */
  cache_write_1h?: number
}

export interface ApiErrorBody {
  message: string
  type?: string | null
  code?: string | null
  param?: string | null
  hint?: string | null
}

/** A document: of a message where the turn's record names it, of the whole conversation in `turn.started`. */
export interface TurnDocument {
  document: number | null
  file_id: string | null
  title: string
  media_type?: string | null
  size?: number | null
  tokens?: number | null
  reason?: string | null
}

interface Placement {
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
}

export interface TurnStarted extends Placement {
  type: 'turn.started'
  conversation_id: string
  user_message_id: string
  sent_at: string
  documents: TurnDocument[]
}

export interface RunStarted extends Placement {
  type: 'run.started'
  run_id: string
  model: string
  /** What is not known of it; null where the model table has it. */
  caution?: string | null
}

export interface ModelFallback extends Placement {
  type: 'model.fallback'
  asked: string
  model: string
  error: ApiErrorBody
}

export interface RequestStarted extends Placement {
  type: 'request.started'
  request_id: string
  step: number
  purpose: string
  letters: string
  estimate: number
  budget: number
  predicted_read: number
}

export interface ContextDegraded extends Placement {
  type: 'context.degraded'
  subject: string
  why: string
}

export interface ReasoningDelta extends Placement {
  type: 'reasoning.delta'
  text: string
}

export interface TextDelta extends Placement {
  type: 'text.delta'
  text: string
}

export interface ToolCall extends Placement {
  type: 'tool.call'
  call_id: string
  name: string
  renderer: string
}

export interface ToolArgsDelta extends Placement {
  type: 'tool.args.delta'
  call_id: string
  json: string
}

/** A call waits for the user. */
export interface ToolApproval extends Placement {
  type: 'tool.approval'
  call_id: string
  name: string
  arguments: string
}

export interface ToolVerdict extends Placement {
  type: 'tool.verdict'
  call_id: string
  approved: boolean
}

export interface ToolResult extends Placement {
  type: 'tool.result'
  call_id: string
  name: string
  content: string
  is_error: boolean
  /** How long it ran; null where it did not. */
  seconds?: number | null
}

export interface SourceNamed extends Placement {
  type: 'source'
  document: number
  title: string
  file_id: string | null
  url: string | null
}

/** `start` and `end` count code points of the text block; the passage's count code points of the document's text. */
export interface CitationPacket extends Placement {
  type: 'citation'
  document: number
  start: number
  end: number
  file_id: string | null
  passage_start: number | null
  passage_end: number | null
  page: number | null
}

export interface UsagePacket extends Placement {
  type: 'usage'
  request_id: string
  usage: UsageBody
  cost: number
  budget: number
}

/** The answer of a run is not whole: what came is kept. */
export interface PartialPacket extends Placement {
  type: 'answer.partial'
  reason: 'max_tokens' | 'refusal' | 'step_limit'
  message: string
  hint: string
}

export interface ErrorPacket extends Placement {
  type: 'error'
  error: ApiErrorBody
}

export interface RunFinished extends Placement {
  type: 'run.finished'
  run_id: string
  /** Why the model stopped, or `error`. */
  status: string
  error?: ApiErrorBody | null
  usage?: UsageBody
  cost?: number
}

export interface TurnStopped extends Placement {
  type: 'turn.stopped'
  reason: 'user_cancelled' | 'interrupted'
}

export interface TurnFinished extends Placement {
  type: 'turn.finished'
  status: string
  usage: UsageBody
  cost: number
}

/** What was sent waits: `n` is 0, and there is no turn yet. */
export interface TurnQueued extends Placement {
  type: 'turn.queued'
  message_id: string
  place: number
  due_at: string | null
}

/** The answer to a command that was sent in the place of a message: there is no turn. */
export interface CommandPacket extends Placement {
  type: 'command'
  id: string
  name: string
  argument: string
  answer: string
  data: Record<string, unknown>
  at: string
}

export type Packet =
  | TurnQueued
  | TurnStarted
  | RunStarted
  | ModelFallback
  | RequestStarted
  | ContextDegraded
  | ReasoningDelta
  | TextDelta
  | ToolCall
  | ToolArgsDelta
  | ToolApproval
  | ToolVerdict
  | ToolResult
  | SourceNamed
  | CitationPacket
  | UsagePacket
  | PartialPacket
  | ErrorPacket
  | RunFinished
  | TurnStopped
  | TurnFinished
  | CommandPacket
