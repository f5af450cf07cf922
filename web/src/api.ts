/** The server's endpoints, typed. */

import type { ShownTurn } from './turn.ts'
import { ROOT, body, everything, items, json, newKey, query, send, sendFile, withKey, type Upload } from './http.ts'
import type {
  CommandKind,
  Conversation,
  ConversationPatch,
  Effort,
  FileText,
  ListOf,
  Search,
  Gauge,
  Line,
  Model,
  NewTurnBody,
  PreviewBody,
  QueuedMessage,
  RequestDiff,
  RequestMap,
  ModelRequest,
  Session,
  Status,
  Notice,
  UploadedFile,
  Why,
} from './objects.ts'

export * from './http.ts'
export type * from './objects.ts'

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
    json<ListOf<ShownTurn>>(`/conversations/${id}/turns${query({ order: 'desc', limit: 50, after })}`),
  turn: (id: string) => json<ShownTurn>(`/turns/${id}`),
  begin: (id: string, key: string, value: NewTurnBody) =>
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
  told: (id: string) => everything<Notice>(`/conversations/${id}/commands`),
  efforts: async (id: string) => items(await json<ListOf<Effort>>(`/conversations/${id}/efforts`)),
  /** What was said, in one conversation or in all. */
  search: (id: string | undefined, q: string, signal?: AbortSignal) =>
    json<Search>(`/sessions/search${query({ q, conversation_id: id })}`, { signal: signal ?? null }),
  command: (id: string, text: string) =>
    json<Notice>(`/conversations/${id}/commands`, withKey(body('POST', { text }), newKey())),
  resume: (session: string) => json<Notice>(`/sessions/${session}/resume`, withKey({ method: 'POST' }, newKey())),
  undo: (session: string) => json<Notice>(`/sessions/${session}/undo`, withKey({ method: 'POST' }, newKey())),
  /** The sessions of a conversation, the oldest first. */
  sessions: async (id: string) => (await everything<Session>(`/conversations/${id}/sessions`)).reverse(),
  requests: async (turn: string) =>
    items(await json<ModelRequest[] | ListOf<ModelRequest>>(`/turns/${turn}/requests`)),
  map: (request: string) => json<RequestMap>(`/requests/${request}/map`),
  why: (request: string) => json<Why>(`/requests/${request}/why`),
  diff: (request: string) => json<RequestDiff>(`/requests/${request}/diff`),
  lines: (after?: string) => json<ListOf<Line>>(`/lines${query({ limit: 50, after })}`),
  line: (id: string) => json<Line>(`/lines/${id}`),
  /** A conversation that goes on from a line: all of it, or up to a turn. */
  fork: (line: string, turn?: string) => json<Conversation>(`/lines/${line}/fork`, body('POST', turn ? { turn_id: turn } : {})),
  liveLines: (signal: AbortSignal) => send('/lines/live', { headers: { Accept: 'text/event-stream' }, signal }),
  preview: (value: PreviewBody, signal?: AbortSignal) =>
    json<RequestMap>('/context/preview', { ...body('POST', value), signal: signal ?? null }),
  fileText: (id: string) => json<FileText>(`/files/${id}/text`),
  fileAddress: (id: string) => `${ROOT}/files/${id}/content`,
  rawAddress: (request: string) => `${ROOT}/requests/${request}/raw`,
}

function streaming(init: RequestInit): RequestInit {
  return { ...init, headers: { ...(init.headers as Record<string, string>), Accept: 'text/event-stream' } }
}

/** Send a file to be attached. */
export function upload(file: File, progress: (share: number) => void): Upload {
  return sendFile<UploadedFile>('POST', '/files', file, progress)
}
