/** What the server's endpoints give and take. */

import type { ApiErrorBody, TurnDocument, UsageBody } from './packets.ts'

export interface Status {
  version: string
  model: string
  provider: string
  demonstration: boolean
  notice: string | null
  data_dir: string
  max_upload_bytes: number
}

export interface Model {
  id: string
  provider: string
  window: number
  known: boolean
  /** What is not known of it; null where the model table has it. */
  caution: string | null
}

export interface Conversation {
  id: string
  object: 'conversation'
  title: string
  /** Whose it is; `words` are the first of the conversation, until a model has written one. */
  titled_by: 'nobody' | 'words' | 'model' | 'user'
  model: string
  agent_id: string | null
  project_id: string | null
  layout: string
  marker_policy: string
  system_prompt_version: number
  /** Null leaves it to the agent, then to the server. */
  thinking_effort: string | null
  created_at: string
  updated_at: string
  running_turn: string | null
  /** The turn that the next message follows, and the answer of it. */
  head: string | null
  head_run_id: string | null
}

/** What a conversation may be told; what is left out stays as it is, or is chosen by the server. */
export interface ConversationPatch {
  title?: string
  model?: string
  agent_id?: string | null
  project_id?: string | null
  layout?: string
  marker_policy?: string
  system_prompt_version?: number
  thinking_effort?: string | null
}

/** What a change keeps the next request from reading of the cache. */
export interface CacheLost {
  level: 'tools' | 'system' | 'messages'
  tokens: number
  cost: number
}

/** A thinking effort to choose. */
export interface Effort {
  name: string
  tokens: number
  current: boolean
  /** What the model can't be asked of it. */
  note: string | null
  cache_lost: CacheLost | null
}

/** One model's answer, in short. */
export interface Run {
  id: string
  model: string
}

export interface Turn {
  id: string
  /** What it follows; null at the beginning. */
  parent_id: string | null
  parent_run_id: string | null
  runs: Run[]
  /** The answer that is followed. */
  run_id: string | null
  /** The turns that follow the same answer as it does, itself among them, the oldest first. */
  siblings: string[]
  status: 'running' | 'finished' | 'stopped' | 'failed' | 'interrupted'
  model: string
  text: string
  sent_at: string
  timezone: string
  documents: TurnDocument[]
  error: ApiErrorBody | null
  usage: UsageBody | null
  cost: number | null
  started_at: string
  finished_at: string | null
}

/** A message or a command that waits. */
export interface QueuedMessage {
  id: string
  kind: 'message' | 'command'
  text: string
  file_ids: string[]
  due_at: string | null
  /** Its turn is about to be stored: it can't be changed any more. */
  begins: boolean
}

export interface UploadedFile {
  id: string
  name: string
  size: number
  media_type: string
  status: 'ready' | 'failed'
  reason: string | null
  code: string | null
  tokens: number
  /** Whether the text has room in the window; if not it is listed, and read in pieces. */
  fits?: boolean
  pages: number | null
  /** Of a picture, in pixels. */
  width?: number | null
  height?: number | null
}

export interface FileText {
  id: string
  name: string
  text: string
  pages: number | null
}

export interface Gauge {
  input: number
  read: number
  budget: number
  window: number
  estimate: boolean
  cached_share: number | null
  request_id: string | null
  /** Above so many tokens of input a compaction begins by itself; null if none does. */
  compaction_at: number | null
  /** What one now would save of the next messages, in US dollars, if that is worth asking for. */
  compaction_offer?: { saves: number; share: number; messages: number } | null
  /** A compaction runs, or may begin behind the turn that has just ended. */
  compacting: boolean
  /** When what is cached ends, and what is due next if nobody says anything. */
  cache?: { ends_at: string | null; next: 'nothing' | 'compact' | 'prune'; at: string | null; why: string }
  /** The newest command or notification. */
  notice: string | null
}

/** A command to choose from. */
export interface CommandKind {
  name: string
  usage: string
  summary: string
}

interface Notice {
  id: string
  /** The turn that it stands behind; null before the first. */
  turn_id: string | null
  name: string
  data: Record<string, unknown>
  at: string
}

/** A command with its answer, or a notification: shown in the conversation, read by no model. */
export type Told =
  | (Notice & { object: 'command'; argument: string; answer: string })
  | (Notice & { object: 'notification'; text: string })

export interface Session {
  id: string
  conversation_id: string
  number: number
  current: boolean
  parent_id: string | null
  /** The last turn that is not in its window. */
  begins_after: string | null
  opened_at: string
  opened_by: string
  closed_at: string | null
  closed_by: string | null
  why: string
  summary: string | null
  summary_tokens: number
  messages: number
  numbers: { before?: number; after?: number; summary?: number; kept?: number }
  check: SummaryCheck
  usage: Record<string, UsageBody>
}

/** A place where something was said. */
export interface Hit {
  conversation_id: string
  session_id: string
  turn_id: string
  message_id: string
  call_id: string | null
  role: 'user' | 'assistant' | 'tool'
  /** The tool's. */
  name: string | null
  at: string
  snippet: { text: string; start: number; marks: { start: number; end: number }[] }
}

/** What a search found. */
export interface Found {
  data: Hit[]
  /** Why words decided alone; null if they did not. */
  without_meaning: string | null
}

/** How a summary compares with what it stands for; empty where nothing was checked. */
export interface SummaryCheck {
  items?: number
  found?: number
  kept_literally?: string[]
  missing?: string[]
  invented?: string[]
}

export interface RequestSummary {
  id: string
  step: number
  purpose: string
  letters: string
  model: string
  at: string
  estimate: number
  budget: number
  predicted: { read: number; written: number }
  usage: UsageBody | null
  cost: number | null
  error: ApiErrorBody | null
}

export interface Segment {
  id: string
  kind: string
  zone: string
  lifetime: string
  source: string
  owner: string
  label: string
  letters: string
  tokens: number
  /** False where the tokens are an estimate. */
  measured: boolean
  read: number
  written: number
  fresh: number
  blocks: number
  markers: { ttl: string; why: string }[]
  text_preview: string
}

export interface RequestMap {
  /** In one sentence what was read from the cache, what it cost, and why it was not more. */
  why?: string | null
  /** Null for a request that was not sent. */
  id: string | null
  letters: string
  model: string
  layout: string
  marker_policy: string
  budget: number
  estimate: number
  usage: UsageBody | null
  cost: number | null
  predicted: { read: number; written: number }
  segments: Segment[]
  notes: { segment: string | null; text: string }[]
  /** The kinds of segment that the layout has a place for and the window has not. */
  absent: { kind: string; why: string }[]
}

/** What a message would be sent with; its text and files are the draft's. */
export interface PreviewValue {
  conversation_id: string
  text: string
  file_ids: string[]
  timezone: string
}

/** What a turn is asked with: words of its own, or those of another turn once more. */
export interface NewTurn {
  text?: string
  file_ids?: string[]
  timezone: string
  /** Left out: the conversation's. */
  models?: string[]
  /** A run's id, null for the beginning; left out: where the conversation stands. */
  parent_message_id?: string | null
  regenerate?: string
  queue?: boolean
  debounce_ms?: number
}
