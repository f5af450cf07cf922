/** The server's endpoints, typed. Every failure becomes an `ApiError` with a message and, where there is one, a hint. */

import type { ApiErrorBody, TurnDocument, UsageBody } from './packets.ts'

const ROOT = '/api/v1'

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string | null
  /** The field of the body that was wrong. */
  readonly param: string | null

  constructor(status: number, body: ApiErrorBody) {
    super(body.message)
    this.name = 'ApiError'
    this.status = status
    this.code = body.code ?? 'unknown'
    this.hint = body.hint ?? null
    this.param = body.param ?? null
  }
}

/** What any thrown thing says to a user. */
export function explain(error: unknown): { message: string; hint: string | null } {
  if (error instanceof ApiError) return { message: error.message, hint: error.hint }
  return { message: 'Something went wrong in this page.', hint: 'Reload it. What was sent is kept by the server.' }
}

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

export interface ListOf<Item> {
  object: 'list'
  data: Item[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
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
  /** Above so many tokens of input a compaction begins. */
  compaction_at: number
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
  message_id: string
  call_id: string | null
  session_id: string
  role: string
  at: string
  snippet: { text: string; marks: { start: number; end: number }[] }
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

/** Lists come as an array or as a page object: take the items of either. */
export function items<Item>(list: Item[] | ListOf<Item>): Item[] {
  return Array.isArray(list) ? list : list.data
}

/** A request that fails with an `ApiError`, also when the server cannot be reached. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(ROOT + path, init)
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new ApiError(0, unreachable)
  }
  if (!answer.ok) throw new ApiError(answer.status, errorBody(answer.status, await answer.text().catch(() => '')))
  return answer
}

export const unreachable: ApiErrorBody = {
  message: 'The server cannot be reached.',
  code: 'unreachable',
  hint: 'Check that it is running, then try again.',
}

/** The error object of an answer, or one made from the status when the answer holds none. */
export function errorBody(status: number, text: string): ApiErrorBody {
  try {
    const body = JSON.parse(text) as { error?: ApiErrorBody }
    if (typeof body.error?.message === 'string') return body.error
  } catch {
    // not JSON: a proxy answered, or nobody did
  }
  return { message: `The server answered with status ${status}.`, code: 'unknown', hint: null }
}

/** A random key for one attempt. `crypto.randomUUID` exists on secure addresses only, and a home network is none. */
export function newKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export async function json<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  const answer = await send(path, init)
  return (answer.status === 204 ? null : await answer.json()) as Answer
}

export function body(method: string, value: unknown): RequestInit {
  return { method, body: JSON.stringify(value), headers: { 'Content-Type': 'application/json' } }
}

export function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined)
  return set.length === 0 ? '' : `?${new URLSearchParams(set.map(([key, value]) => [key, String(value)]))}`
}

/** A list to its end, page by page. */
export async function everything<Item>(path: string): Promise<Item[]> {
  const all: Item[] = []
  for (let after: string | undefined; ; ) {
    const page = await json<Item[] | ListOf<Item>>(path + query({ limit: 100, after }))
    if (Array.isArray(page)) return page
    all.push(...page.data)
    if (!page.has_more || !page.last_id) return all
    after = page.last_id
  }
}

export const api = {
  status: () => json<Status>('/status'),
  models: async (also = '') => items(await json<Model[] | ListOf<Model>>(`/models${also && `?also=${encodeURIComponent(also)}`}`)),
  conversations: (after?: string) => json<ListOf<Conversation>>(`/conversations${query({ limit: 40, after })}`),
  conversation: (id: string) => json<Conversation>(`/conversations/${id}`),
  create: (value: ConversationPatch) =>
    json<Conversation>('/conversations', withKey(body('POST', value), newKey())),
  change: (id: string, value: ConversationPatch) =>
    json<Conversation>(`/conversations/${id}`, body('PATCH', value)),
  remove: (id: string) => json<null>(`/conversations/${id}`, { method: 'DELETE' }),
  /** Let a conversation search these knowledge bases. */
  bind: (id: string, bases: readonly string[]) =>
    json<unknown>(`/conversations/${id}/knowledge-bases`, body('PUT', { knowledge_base_ids: bases })),
  turns: (id: string, after?: string) =>
    json<ListOf<Turn>>(`/conversations/${id}/turns${query({ order: 'desc', limit: 50, after })}`),
  turn: (id: string) => json<Turn>(`/turns/${id}`),
  begin: (id: string, key: string, value: NewTurn) =>
    send(`/conversations/${id}/turns`, withKey(streaming(body('POST', value)), key)),
  events: (turn: string, after: number, signal?: AbortSignal) =>
    send(`/turns/${turn}/events?after=${after}`, {
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': String(after) },
      signal: signal ?? null,
    }),
  approve: (turn: string, call: string, approved: boolean, reason: string) =>
    json<null>(`/turns/${turn}/calls/${call}/approval`, body('POST', { approved, reason })),
  stop: (turn: string) => send(`/turns/${turn}/stop`, { method: 'POST' }),
  stopRun: (run: string) => send(`/runs/${run}/stop`, { method: 'POST' }),
  prefer: (turn: string, value: { run_id?: string; latest?: boolean }) =>
    json<Conversation>(`/turns/${turn}/prefer`, body('POST', value)),
  queue: async (id: string) => items(await json<ListOf<QueuedMessage>>(`/conversations/${id}/queue`)),
  flush: (id: string) => json<ListOf<QueuedMessage>>(`/conversations/${id}/queue/flush`, { method: 'POST' }),
  rewrite: (id: string, message: string, text: string) =>
    json<QueuedMessage>(`/conversations/${id}/queue/${message}`, body('PATCH', { text })),
  unqueue: (id: string, message: string) =>
    json<null>(`/conversations/${id}/queue/${message}`, { method: 'DELETE' }),
  context: (id: string) => json<Gauge>(`/conversations/${id}/context`),
  commands: async () => items(await json<ListOf<CommandKind>>('/commands')),
  told: (id: string) => everything<Told>(`/conversations/${id}/commands`),
  efforts: async (id: string) => items(await json<ListOf<Effort>>(`/conversations/${id}/efforts`)),
  search: async (id: string, q: string) =>
    items(await json<Hit[] | ListOf<Hit>>(`/sessions/search${query({ q, conversation_id: id })}`)),
  resume: (session: string) => json<Told>(`/sessions/${session}/resume`, withKey({ method: 'POST' }, newKey())),
  undo: (session: string) => json<Told>(`/sessions/${session}/undo`, withKey({ method: 'POST' }, newKey())),
  /** The sessions of a conversation, the oldest first. */
  sessions: async (id: string) => (await everything<Session>(`/conversations/${id}/sessions`)).reverse(),
  requests: async (turn: string) =>
    items(await json<RequestSummary[] | ListOf<RequestSummary>>(`/turns/${turn}/requests`)),
  map: (request: string) => json<RequestMap>(`/requests/${request}/map`),
  preview: (value: PreviewValue, signal?: AbortSignal) =>
    json<RequestMap>('/context/preview', { ...body('POST', value), signal: signal ?? null }),
  fileText: (id: string) => json<FileText>(`/files/${id}/text`),
  fileAddress: (id: string) => `${ROOT}/files/${id}/content`,
  rawAddress: (request: string) => `${ROOT}/requests/${request}/raw`,
}

export function withKey(init: RequestInit, key: string): RequestInit {
  return { ...init, headers: { ...(init.headers as Record<string, string>), 'Idempotency-Key': key } }
}

function streaming(init: RequestInit): RequestInit {
  return { ...init, headers: { ...(init.headers as Record<string, string>), Accept: 'text/event-stream' } }
}

export interface Upload<Answer = UploadedFile> {
  done: Promise<Answer>
  cancel: () => void
}

/** Send a file to be attached. */
export function upload(file: File, progress: (share: number) => void): Upload {
  return sendFile<UploadedFile>('POST', '/files', file, progress)
}

/** Send a file; `progress` gets the share that left this machine, 1 when the server has it and reads it. */
export function sendFile<Answer>(
  method: 'POST' | 'PUT',
  path: string,
  file: File,
  progress: (share: number) => void,
): Upload<Answer> {
  const request = new XMLHttpRequest()
  const done = new Promise<Answer>((resolve, reject) => {
    request.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) progress(event.loaded / event.total)
    }
    request.upload.onload = () => progress(1)
    request.onerror = () => reject(new ApiError(0, unreachable))
    request.onload = () => {
      if (request.status < 200 || request.status > 299) {
        reject(new ApiError(request.status, errorBody(request.status, request.responseText)))
        return
      }
      try {
        resolve(JSON.parse(request.responseText) as Answer)
      } catch {
        reject(new ApiError(request.status, errorBody(request.status, '')))
      }
    }
  })
  const form = new FormData()
  form.append('file', file, file.name)
  request.open(method, ROOT + path)
  request.setRequestHeader('Idempotency-Key', newKey())
  request.send(form)
  return { done, cancel: () => request.abort() }
}
