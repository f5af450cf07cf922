/**
 * What the server's endpoints give and take, and the packets of its streams.
 * Made from the description of the API by `python webbuild.py --types`; do not edit.
 */

/** A kind of segment that the layout has a place for and the window has not. */
export interface Absent {
  kind: string
  why: string
}

/** A marker that was added to a request: the block of the window that it follows, and why it is there. */
export interface AddedMarkerBody {
  index: number
  ttl: '5m' | '30m' | '1h'
  why: string
}

/**
 * An agent. `tools` null allows all. `fallback_model` answers if its model fails before its answer begins.
 * `thinking_effort` null leaves it to the conversation or the server.
 */
export interface Agent {
  id: string
  object: 'agent'
  name: string
  prompt: string
  reminder: string
  replaces_system: boolean
  tools: string[] | null
  model: string | null
  layout: string | null
  thinking_effort: string | null
  fallback_model: string | null
  revision: number
  created_at: string
  updated_at: string
}

/** What the model is told about the application in this run. */
export interface AgentContext {
  description: string
  value: string
}

/** A message of the thread. Content is read of new messages only. */
export interface AgentMessage {
  id: string
  role: 'developer' | 'system' | 'assistant' | 'user' | 'tool' | 'activity' | 'reasoning'
  content?: unknown
  toolCallId?: string
  error?: string | null
}

/** `PATCH /api/v1/agents/{id}`. Fields that are left out do not change. */
export interface AgentPatch {
  name?: string
  prompt?: string
  reminder?: string
  replaces_system?: boolean
  tools?: string[] | null
  model?: string | null
  layout?: string | null
  thinking_effort?: string | number | null
  fallback_model?: string | null
}

/** `RunAgentInput` of AG-UI. `forwardedProps` are the options of the turn. */
export interface AgentRunBody {
  threadId: string
  runId: string
  protocolVersion?: string | null
  parentRunId?: string | null
  state?: unknown
  messages: AgentMessage[]
  tools?: AgentTool[] | null
  context?: AgentContext[] | null
  forwardedProps?: TurnOptions | null
  resume?: ResumeEntry[] | null
}

/** A tool that the application runs. */
export interface AgentTool {
  name: string
  description?: string
  parameters?: Record<string, unknown> | null
}

/** The decision on a call. */
export interface Approval {
  object: 'approval'
  call_id: string
  approved: boolean
}

/** The user's decision on a call. The model sees the reason. */
export interface ApprovalBody {
  approved: boolean
  reason?: string
}

/** A file or picture of a message, under its number in the conversation; `reason` says why it has no text. */
export interface Attachment {
  document: number
  file_id: string
  title: string
  media_type: string
  size: number
  tokens: number
  reason: string | null
}

/**
 * An entry of the audit log: who (`by`), to whom (`subject`), where (`on`: a base or a group).
 * `from` and `to` are levels of a grant, `member`, or the outcome of a question; null for none.
 */
export interface AuditEntry {
  id: string
  object: 'audit.entry'
  at: string
  by: string
  by_name: string
  subject_id: string | null
  subject_name: string | null
  on_id: string
  on_name: string
  from: string | null
  to: string | null
}

/** What an audit lists. */
export type AuditKind = 'grants' | 'members' | 'restricted-uses'

/** `PATCH /api/v1/knowledge-bases/{id}`. Fields that are left out do not change. */
export interface BasePatch {
  name?: string
  description?: string
  visible?: boolean
  hint?: string
  keywords?: string[]
  summary?: string
  topics?: string[]
  restricted_level?: 'summary' | 'form' | 'existence'
  contact?: string
  form?: FormFieldBody[]
}

/** The totals of a base. `states` counts its documents by state. */
export interface BaseTotals {
  documents: number
  unfinished: number
  searchable: number
  passages: number
  embedded: number
  tokens: number
  states: Record<string, number>
}

/** The bases that a conversation or an agent searches. */
export interface BoundBases {
  knowledge_base_ids: string[]
}

/** `PUT …/knowledge-bases` of a conversation or an agent: the complete list of bases that it searches. */
export interface BoundBody {
  knowledge_base_ids: string[]
}

/** A turn as a node of the tree. */
export interface Branch {
  id: string
  object: 'branch'
  parent_id: string | null
  parent_run_id: string | null
  text: string
  status: TurnStatus
  started_at: string
  runs: BranchRun[]
}

/** One model's answer, in short. */
export interface BranchRun {
  id: string
  model: string
  status: TurnStatus
}

/**
 * What the next request can't read from the cache: from which level on, about how many tokens, and the extra
 * cost of writing instead of reading them, in US dollars.
 */
export interface CacheLoss {
  level: 'messages' | 'system' | 'tools'
  tokens: number
  cost: number
}

/**
 * A setting that is part of the cache key changed. Says what the next request can no longer read.
 * `subject` is the setting. `level` says where in the window the loss begins (`tools`, `system`, `messages`).
 * `tokens` is about how many are lost, `cost` the extra US dollars for writing instead of reading them.
 */
export interface CacheLost {
  type: 'cache.lost'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  subject: string
  level: string
  tokens: number
  cost: number
  why: string
}

/** How a provider's comparison of two prompts came out. */
export type CacheVerdict = 'changed' | 'not_found' | 'pending' | 'same' | 'unavailable'

/** What a caller gave back for a call that was handed to it. */
export interface CallResult {
  call_id: string
  name: string
  content: string
  is_error: boolean
}

/** An earlier summary in the window of a session: the `lines` that are shown, counted from 0; null for all. */
export interface Carried {
  session_id: string
  lines: number[] | null
}

/** Why cached tokens were not read. */
export type Cause =
  | 'clock'
  | 'counters'
  | 'decided'
  | 'edited'
  | 'effort'
  | 'expired'
  | 'first'
  | 'missed'
  | 'model'
  | 'moved'
  | 'not_billed'
  | 'nothing_cached'
  | 'read'
  | 'settings'
  | 'shorter'
  | 'time'
  | 'tools'

/** A sentence that the second model said: as it is `released`, "" if it is cut; why, and for which `words`. */
export interface CheckedSentence {
  said: string
  released: string
  cuts: string[]
  words: string[]
}

/**
 * `[n]` in text block `block_index`: characters `start` to `end` (code points, not UTF-16) cite `document`.
 * In a list such as `[1, 99]`, in which only some numbers are documents, the range has only the digits of one
 * document.
 * `passage_start` and `passage_end` are code-point offsets in the document's text, if a passage was found;
 * `quote` is its beginning, 400 characters at most. Of a knowledge base's document only the quote is there.
 */
export interface CitationPacket {
  type: 'citation'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  document: number
  start: number
  end: number
  file_id: string | null
  passage_start: number | null
  passage_end: number | null
  page: number | null
  quote: string
}

/** A command with its answer. */
export interface Command {
  id: string
  conversation_id: string
  turn_id: string | null
  data: Record<string, unknown>
  at: string
  object: 'command'
  name: string
  argument: string
  answer: string
}

/** `POST /api/v1/conversations/{id}/commands`. */
export interface CommandBody {
  text: string
  queue?: boolean
}

/** A command to choose from. */
export interface CommandKind {
  name: string
  object: 'command.kind'
  usage: string
  summary: string
}

/** The answer to a command that was sent as a message. It is the only packet, and there is no turn. */
export interface CommandPacket {
  type: 'command'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  id: string
  name: string
  argument: string
  answer: string
  data: Record<string, unknown>
  at: string
}

/** `POST /api/v1/conversations/{id}/compact`. */
export interface CompactBody {
  focus?: string
}

/** The saving of a compaction now, over the next `messages`, in US dollars. */
export interface CompactionOffer {
  saves: number
  share: number
  messages: number
}

/** Something did not fit and was listed instead of included. */
export interface ContextDegraded {
  type: 'context.degraded'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  subject: string
  why: string
}

/** What is done with the histories that a key's client sends again. */
export type ContextOption = 'manage' | 'off'

/**
 * A conversation. `head` is the turn that the next message follows, `head_run_id` its answer.
 * `titled_by` says who wrote the title: `words` are the first words of the conversation, until a model writes
 * one. `thinking_effort` null leaves it to the agent, then to the server. `cache_lost` is set after a change
 * of the effort: null if nothing is lost. `observed`: it is a client's, so it is read-only here; a fork of its
 * line goes on.
 */
export interface Conversation {
  id: string
  object: 'conversation'
  title: string
  titled_by: 'model' | 'nobody' | 'user' | 'words'
  model: string
  layout: string
  marker_policy: string
  agent_id: string | null
  project_id: string | null
  system_prompt_version: number
  thinking_effort: string | null
  created_at: string
  updated_at: string
  running_turn: string | null
  head: string | null
  head_run_id: string | null
  observed: boolean
  cache_lost?: CacheLoss | null
}

/** `PATCH /api/v1/conversations/{id}`; null lets agent, project and effort go, and leaves all else. */
export interface ConversationPatch {
  title?: string | null
  model?: string | null
  layout?: string | null
  marker_policy?: string | null
  system_prompt_version?: number | null
  agent_id?: string | null
  project_id?: string | null
  thinking_effort?: string | number | null
}

/** A decision; `first_changed` is the segment from which on the window is another, if any. */
export interface Decision {
  id: string
  object: 'decision'
  at: string
  kind: string
  subject: string
  outcome: string
  who: string
  why: string
  numbers: Record<string, number>
  first_changed: string | null
}

/** Whose words the summary and the topics of a base are. */
export type DescribedBy = 'model' | 'nobody' | 'user'

/** The provider's explanation of a cache miss, compared with the answer `compared_with`. `missed` is in tokens. */
export interface Diagnosis {
  compared_with: string
  verdict: CacheVerdict
  reason: string | null
  missed: number | null
}

/**
 * The first difference between two windows: the old segment at this place, the new one (`now`), and the text
 * around the byte in both. `span` is the number of bytes within which the first different one is: 1, or more
 * if only digests are stored. `after_cached_prefix`: the difference costs nothing.
 */
export interface Difference {
  segment: string
  label: string
  kind: string
  owner: string
  now: string | null
  block: number
  byte: number
  span: number
  before: string
  after: string
  reordered: boolean
  after_cached_prefix: boolean
}

/** A passage of which something went out; without a `text` it is of an earlier version of the document. */
export interface DisclosedPassage {
  id: string
  object: 'disclosed_passage'
  position: number | null
  headings: string[]
  text: string
  readers: PassageReader[]
}

/** What one answer told of a passage: its sentences, and the content words (stems) that were new to the reader. */
export interface Disclosure {
  use_id: string
  at: string
  question: string
  sentences: string[]
  words: string[]
}

/** A page of the documents of a base, and its totals. */
export interface DocumentList {
  object: 'list'
  data: KnowledgeDocument[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
  totals: BaseTotals
}

/** How far a document is. */
export type DocumentState = 'embedding' | 'failed' | 'indexing' | 'reading' | 'ready' | 'waiting'

/**
 * A thinking effort to choose, the parameters it sends, and what changing to it loses of the cache now.
 * `note` says how the model deviates from it.
 */
export interface Effort {
  object: 'effort'
  name: string
  tokens: number
  current: boolean
  requested: RequestedEffort
  note: string | null
  cache_lost: CacheLoss | null
}

/** An error: `message` says what was wrong, `hint` what to do, `param` names the field or file. */
export interface ErrorBody {
  message: string
  type: string
  code: string
  param: string | null
  hint: string | null
}

/**
 * The run `model_index` failed, or the turn can't be stored yet and is retried.
 * `error` is the object of API errors.
 */
export interface ErrorPacket {
  type: 'error'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  error: ErrorBody
}

/** When packets or a request body were removed, and for how many days they had been kept. */
export interface Expired {
  at: string
  kept_days: number
}

/** The answer to a request that failed. */
export interface Failure {
  error: ErrorBody
}

/** Where the model finds a file. */
export type FileReach = 'in_context' | 'left_out' | 'searched'

/** The text that was read from a file; a form feed stands between pages. */
export interface FileText {
  id: string
  name: string
  pages: number | null
  text: string
}

/**
 * `POST /api/v1/lines/{id}/fork`. All up to the turn `turn_id` is taken, by default up to the newest;
 * `system`: the client's system prompt too, in the first message.
 */
export interface ForkBody {
  turn_id?: string | null
  system?: boolean
}

/** A field of a form. */
export interface FormField {
  name: string
  choices: string[]
}

/** A field of a form: every answer picks one of its choices. */
export interface FormFieldBody {
  name: string
  choices: string[]
}

/** A document that a tool brought into a conversation, with its number there. `size` is in bytes, as fetched. */
export interface FoundDocument {
  id: string
  object: 'document'
  document: number
  title: string
  url: string | null
  media_type: string
  size: number
  tokens: number
  text: string | null
}

/**
 * The fill of the window, and how much of the last request came from the cache.
 * If the window has changed since that request, `input` is a count of the new window: an `estimate`. A
 * compaction starts automatically above `compaction_at` tokens, null if never. `compacting`: one is running,
 * or may start after the turn that just ended. `notice` is the id of the newest command or notification.
 */
export interface Gauge {
  request_id: string | null
  input: number
  read: number
  cached_share: number | null
  budget: number
  compacting: boolean
  compaction_when: string
  compaction_at: number | null
  compaction_by: 'price' | 'threshold' | null
  compaction_offer: CompactionOffer | null
  cache: NextExpiry
  notice: string | null
  window: number
  estimate: boolean
}

/** What was granted to a user or a group. `warning` says why the grant opens nothing yet. */
export interface Grant {
  id: string
  object: 'grant'
  kind: 'group' | 'user'
  name: string
  level: GrantLevel
  by: string
  at: string
  warning: string | null
}

/** `PUT /api/v1/knowledge-bases/{id}/grants/{subject_id}`. */
export interface GrantBody {
  level: 'full' | 'restricted' | 'none'
}

/** A change of a grant; null is no grant. */
export interface GrantChange {
  id: string
  object: 'grant_change'
  subject_id: string
  kind: 'group' | 'user'
  name: string
  by: string
  at: string
  from: GrantLevel | null
  to: GrantLevel | null
}

/** How much of a knowledge base a user may read. */
export type GrantLevel = 'full' | 'none' | 'restricted'

/** A group with its members. */
export interface Group {
  id: string
  object: 'group' | 'user'
  name: string
  members: Named[]
  created_at: string
}

/** `POST /api/v1/groups`, and `PATCH` of one. */
export interface GroupBody {
  name: string
}

/**
 * A file of a project. A picture has its size in pixels. `availability` says where it is for the named model,
 * if one was named.
 */
export interface HeldFile {
  id: string
  name: string
  media_type: string
  tokens: number
  status: 'failed' | 'ready'
  width?: number
  height?: number | null
  availability?: FileReach
  why?: string
}

/** A new user with a first key. */
export interface InvitedUser {
  id: string
  object: 'group' | 'user'
  name: string
  role: Role
  disabled: boolean
  created_at: string
  key: IssuedKey
}

/** A new key with its `secret`, which is shown only once; null if it was shown before. */
export interface IssuedKey {
  id: string
  object: 'key'
  name: string
  prefix: string
  user_id: string
  issued_by: string
  scopes: Scope[]
  current: boolean
  created_at: string
  expires_at: string | null
  last_used_at: string | null
  revoked_at: string | null
  storage: LineStorage | null
  context: ContextOption | null
  secret: string | null
}

/**
 * A key without its secret. `current`: this request came with it; `issued_by`: the user who made it.
 * `storage`: what is stored of the requests of its client; null follows the settings of the server. `context`:
 * whether the histories that its client sends are kept short; null is `off`.
 */
export interface Key {
  id: string
  object: 'key'
  name: string
  prefix: string
  user_id: string
  issued_by: string
  scopes: Scope[]
  current: boolean
  created_at: string
  expires_at: string | null
  last_used_at: string | null
  revoked_at: string | null
  storage: LineStorage | null
  context: ContextOption | null
}

/**
 * `PATCH /api/v1/keys/{id}`. Fields that are left out do not change; null follows the settings of the server.
 * `storage`: what is stored of the requests of a client that has this key: `full`, `hashes` (no text), or
 * `off`. `context`: `manage` keeps the histories that it sends short if that pays, which needs their text;
 * `off` does not.
 */
export interface KeyOptionsBody {
  storage?: 'full' | 'hashes' | 'off' | null
  context?: 'manage' | 'off' | null
}

/** The kinds of segment. */
export type Kind =
  | 'agent'
  | 'dynamic'
  | 'files'
  | 'project'
  | 'reminder'
  | 'sections'
  | 'step'
  | 'summary'
  | 'system'
  | 'tools'
  | 'user'

/** A base as its caller sees it. `hint` to `form` are there for those who may read all of it. */
export interface KnowledgeBase {
  id: string
  object: 'knowledge_base'
  name: string
  description: string
  visible: boolean
  hint?: string
  keywords?: string[]
  summary?: string
  topics?: string[]
  described_by?: DescribedBy
  restricted_level?: RestrictedLevel
  contact?: string
  form?: FormField[]
  level: GrantLevel
  owner_id: string
  is_owner: boolean
  created_at: string
  updated_at: string
}

/**
 * A document and its progress. `code` and `reason` say why it failed or what it waits for.
 * `searchable_version` is the version that search uses, null before the first is indexed. `embedded` counts
 * the passages with a vector of `embedder`.
 */
export interface KnowledgeDocument {
  id: string
  object: 'document'
  knowledge_base_id: string | null
  name: string
  media_type: string | null
  size: number
  state: DocumentState
  code: string | null
  reason: string | null
  version: number
  searchable_version: number | null
  pages: number | null
  tokens: number
  passages: number
  embedded: number
  embedder: string | null
  created_at: string
  updated_at: string
}

/**
 * A found passage, with a snippet around the words of the query.
 * `score` is 1 for the best by words and by meaning. `lexical_score` is BM25, 0 if no word fits; `similarity`
 * is the cosine to the query, 0 if vectors took no part.
 */
export interface KnowledgeHit {
  object: 'passage' | 'search.hit'
  document_id: string
  position: number
  start: number
  end: number
  headings: string[]
  page: number | null
  tokens: number
  text: string
  title: string
  knowledge_base_id: string | null
  score: number
  lexical_score: number
  similarity: number
  snippet: Snippet
}

/** The hits of a search. `lexical_only_reason` says why vectors took no part, null if they did. */
export interface KnowledgeSearch {
  object: 'search'
  query: string
  embedder: string
  lexical_only_reason: string | null
  data: KnowledgeHit[]
}

/** A layout as its table, in the order of the window. */
export interface Layout {
  object: 'layout'
  name: string
  description: string
  slots: LayoutSlot[]
  old_results: OldResults
  markers: string
}

/** A slot of a layout. */
export interface LayoutSlot {
  kind: Kind
  zone: Zone
  lifetime: Lifetime
  when_changed: boolean
}

/** A tool of a server that is not offered, and why. */
export interface LeftOutTool {
  name: string
  reason: string
}

/** How long a segment keeps its place and its bytes. */
export type Lifetime = 'session' | 'step' | 'turn'

/**
 * A client's conversation, recorded request by request. Its turns are those of the conversation `id`.
 * `session` is the id by which the client groups its requests. `label` is `conversation`, what a side call
 * makes, or `refused` while the upstream has taken no request of it. `breaks` are the requests that did not
 * read what was cached, `lost` and `lost_cost` the tokens and US dollars of that. `saved` is what the markers
 * that were added here saved. `alarm` is the newest loop of its client. If the bill of an answer that was cut
 * is estimated, so are the sums: `usage.estimated`. `compactions` are the summaries that were made here to
 * keep the history short (managed context), and `context_saved` is about what that saved.
 */
export interface Line {
  id: string
  object: 'line'
  client: string
  session: string | null
  dialect: string
  label: string
  title: string
  model: string
  begun_at: string
  at: string
  requests: number
  turns: number
  breaks: number
  lost: number
  lost_cost: number
  saved: number
  compactions: number
  context_saved: number
  usage: UsageBody | null
  cost: number
  request_id: string
  alarm: Loop | null
}

/** What is stored of the requests of a key's client. */
export type LineStorage = 'full' | 'hashes' | 'off'

/**
 * What the login needs: whether accounts are set up, whether a key is needed, and whether setting up needs the
 * first-run token.
 */
export interface Login {
  object: 'login'
  set_up: boolean
  key_needed: boolean
  token_needed: boolean
}

/** `POST /api/v1/login`. */
export interface LoginBody {
  key: string
}

/**
 * A client that loops: `text` says what happened. It did the same `times` times, in so many `requests` for
 * `cost` US dollars; `refused` more were refused. `active`: it has not been silent for a minute since.
 */
export interface Loop {
  kind: LoopKind
  text: string
  times: number
  requests: number
  cost: number
  refused: number
  since: string
  at: string
  active: boolean
}

/** How a client loops. */
export type LoopKind = 'compacted' | 'repeated'

/** Characters of a snippet that are a word of the query. */
export interface Mark {
  start: number
  end: number
}

/**
 * An MCP server and its state. `tools` are offered, `left_out` are not; `connected` counts its connections.
 * `error` says why it is down, and `stderr` is the end of its error output: both only for admins, null for
 * others.
 */
export interface McpServer {
  name: string
  object: 'mcp_server'
  transport: 'http' | 'stdio'
  status: 'connecting' | 'down' | 'ready'
  error: string | null
  tools: string[]
  left_out: LeftOutTool[]
  connected: number
  stderr: string | null
}

/** Who asks, with the key of this request; `accounts`: whether everybody needs one. */
export interface Me {
  id: string
  object: 'group' | 'user'
  name: string
  role: Role
  disabled: boolean
  created_at: string
  scopes: Scope[]
  key_id: string | null
  accounts: boolean
}

/** A model by the name that chooses it. `caution` names facts that the model table lacks. */
export interface Model {
  id: string
  object: 'model'
  provider: string
  window: number
  known: boolean
  caution: string | null
}

/**
 * The model `requested_model` failed before anything of its answer was shown: `model` answers in its place,
 * this once.
 * `error` is the object of API errors.
 */
export interface ModelFallback {
  type: 'model.fallback'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  requested_model: string
  model: string
  error: ErrorBody
}

/**
 * A request to a model, without its segments. `usage` and `cost` are set when its turn ends.
 * `diagnosis` is the provider's explanation of a cache miss; null if it was not requested or not given.
 */
export interface ModelRequest {
  id: string
  object: 'request'
  turn_id: string
  run_id: string | null
  step: number
  purpose: string
  letters: string
  model: string
  layout: string
  marker_policy: string
  thinking_effort: string
  at: string
  estimate: number
  budget: number
  predicted: Predicted
  usage: UsageBody | null
  cost: number | null
  error: ErrorBody | null
  provider_request_id: string | null
  dropped_thinking: number
  answer_id: string | null
  diagnosis: Diagnosis | null
  expired: Expired | null
}

/** The name and id of a user or a group, which every member may see. */
export interface Named {
  id: string
  object: 'group' | 'user'
  name: string
}

/** `POST /api/v1/agents`. */
export interface NewAgent {
  name: string
  prompt?: string
  reminder?: string
  replaces_system?: boolean
  tools?: string[] | null
  model?: string | null
  layout?: string | null
  thinking_effort?: string | number | null
  fallback_model?: string | null
}

/** `POST /api/v1/knowledge-bases`. */
export interface NewBase {
  name: string
  description?: string
  visible?: boolean
  hint?: string
  keywords?: string[]
  summary?: string
  topics?: string[]
  restricted_level?: 'summary' | 'form' | 'existence'
  contact?: string
  form?: FormFieldBody[]
}

/** `POST /api/v1/conversations`. */
export interface NewConversationBody {
  title?: string
  model?: string | null
  layout?: string | null
  marker_policy?: string | null
  agent_id?: string | null
  project_id?: string | null
  thinking_effort?: string | number | null
}

/**
 * `POST /api/v1/keys`. Without `scopes` it has all scopes of the request's key. `expires_at` needs an offset.
 * The options are those of `PATCH`.
 */
export interface NewKey {
  storage?: 'full' | 'hashes' | 'off' | null
  context?: 'manage' | 'off' | null
  name: string
  scopes?: ('read' | 'write' | 'manage')[] | null
  expires_at?: string | null
}

/** `POST /api/v1/projects`. */
export interface NewProject {
  name: string
  instructions?: string
  file_ids?: string[]
}

/** `POST /api/v1/system-prompts`. */
export interface NewSystemPrompt {
  text: string
  note?: string
}

/**
 * `POST /api/v1/conversations/{id}/turns`. `queue` false: answer now or refuse. `debounce_ms` overrides the
 * setting; 0 answers at once, together with waiting messages. `parent_message_id` is the message that it
 * follows: null for the beginning, left out for the current position. `regenerate` is a turn to answer again,
 * instead of a text.
 * `tools` are the caller's own: a call of one ends the turn, and the next one brings `results`, with or
 * without a text. Such a message is not queued.
 */
export interface NewTurnBody {
  text?: string
  file_ids?: string[]
  timezone?: string
  dynamic_context?: string[] | null
  layout?: string | null
  marker_policy?: string | null
  agent_id?: string | null
  thinking_effort?: string | number | null
  knowledge_base_ids?: string[]
  models?: string[] | null
  parent_message_id?: string | null
  regenerate?: string | null
  tools?: OwnToolBody[] | null
  results?: ResultBody[]
  queue?: boolean
  debounce_ms?: number | null
}

/** `POST /api/v1/users`. */
export interface NewUser {
  name: string
  role?: 'admin' | 'member'
}

/** When the cache expires, and what is due next if no message comes. */
export interface NextExpiry {
  ends_at: string | null
  next: 'compact' | 'nothing' | 'prune'
  at: string | null
  why: string
}

/** The turn failed, or the message did not become a turn: the error and the partial result. */
export interface NotAnswered {
  error: ErrorBody
  turn?: Turn
  queued?: QueuedMessage
}

export type Notice = Command | Notification

/** The subject of a notice. */
export type NoticeKind = 'command' | 'compacted' | 'not_answered' | 'not_compacted' | 'pruned'

/** A report about the conversation, such as a compaction. */
export interface Notification {
  id: string
  conversation_id: string
  turn_id: string | null
  data: Record<string, unknown>
  at: string
  object: 'notification'
  name: NoticeKind
  text: string
}

/** What replaces the tool results of earlier turns. */
export type OldResults = 'keep' | 'notice' | 'stub'

/** Who changed a prefix. */
export type Origin = 'agent' | 'client' | 'clock' | 'engine' | 'grant' | 'layout' | 'setting' | 'tools' | 'unknown' | 'user'

/** A tool of the caller's. `input_schema` is a JSON schema of type object. */
export interface OwnToolBody {
  name: string
  description?: string
  input_schema?: Record<string, unknown> | null
}

/** What a stream sends: one of these. */
export type Packet =
  | TurnQueued
  | TurnStarted
  | RunStarted
  | ModelFallback
  | RequestStarted
  | ContextDegraded
  | CacheLost
  | ReasoningPacket
  | TextPacket
  | ToolCallPacket
  | ToolArgsPacket
  | ToolApprovalPacket
  | ToolVerdictPacket
  | ToolHandedOut
  | ToolResultPacket
  | SourcePacket
  | CitationPacket
  | UsagePacket
  | PartialPacket
  | ErrorPacket
  | RunFinished
  | TurnStopped
  | PacketsExpired
  | TurnFinished
  | CommandPacket

/**
 * The turn's packets were removed at `expired_at`, after `kept_days` days.
 * Those that follow are made from its stored messages: each text, thought, call and result whole, under new
 * numbers, without citations, requests and times. A follower that had packets already gets none of them again.
 */
export interface PacketsExpired {
  type: 'packets.expired'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  expired_at: string
  kept_days: number
}

/**
 * The run `model_index` ended before its answer was complete; the partial answer is kept. `hint` says what to
 * do.
 * `reason`: `max_tokens` for the output limit, `refusal` by the model or its provider, `step_limit` if the
 * model still called tools in the last step.
 */
export interface PartialPacket {
  type: 'answer.partial'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  reason: 'max_tokens' | 'refusal' | 'step_limit'
  message: string
  hint: string
}

/** A passage: characters `start` to `end` of its document. */
export interface Passage {
  object: 'passage' | 'search.hit'
  document_id: string
  position: number
  start: number
  end: number
  headings: string[]
  page: number | null
  tokens: number
  text: string
}

/**
 * What a reader has of a passage: `words` of `out_of` content words, and `most` (0 to 1) of one sentence.
 * `covered` are the places of these words in its text, each as `[start, end]` in characters.
 */
export interface PassageReader {
  user_id: string
  name: string
  words: number
  out_of: number
  most: number
  covered: number[][]
  disclosures: Disclosure[]
}

/**
 * A turn of the current path: `run_id` is the answer that is followed; `siblings` are the turns that follow
 * the same answer, itself among them, the oldest first.
 */
export interface PathTurn {
  id: string
  object: 'turn'
  conversation_id: string
  parent_id: string | null
  parent_run_id: string | null
  status: TurnStatus
  model: string
  user_message_id: string
  text: string
  results: CallResult[]
  sent_at: string
  timezone: string
  documents: Attachment[]
  answer: string
  runs: Run[]
  error: ErrorBody | null
  usage: UsageBody
  cost: number
  started_at: string
  finished_at: string | null
  expired: Expired | null
  run_id: string | null
  siblings: string[]
}

/** The tools of a conversation. `changes` describes what a refresh would change. */
export interface PinnedTools {
  object: 'list'
  data: Tool[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
  changes: string
}

/** What was recorded; null if nothing is stored of the requests of this key. */
export interface PostedRecord {
  object: 'line.record'
  recorded: Recorded | null
}

/** Tokens that were to be read from the cache and written to it. */
export interface Predicted {
  read: number
  written: number
}

/**
 * `POST /api/v1/turns/{id}/prefer`. `run_id` left out is the answer that is followed there; `latest`: go on to
 * the newest turn that came after it.
 */
export interface PreferBody {
  run_id?: string | null
  latest?: boolean
}

/** `POST /api/v1/context/preview`. */
export interface PreviewBody {
  text: string
  file_ids?: string[]
  timezone?: string
  dynamic_context?: string[] | null
  layout?: string | null
  marker_policy?: string | null
  agent_id?: string | null
  thinking_effort?: string | number | null
  knowledge_base_ids?: string[]
  conversation_id: string
  model?: string | null
}

/** A project. `tokens` is the size of its files. `model` is the model that was named. */
export interface Project {
  id: string
  object: 'project'
  name: string
  instructions: string
  files: HeldFile[]
  tokens: number
  revision: number
  created_at: string
  updated_at: string
  model?: string
}

/** `POST /api/v1/projects/{id}/files`. */
export interface ProjectFile {
  file_id: string
}

/** `PATCH /api/v1/projects/{id}`. Fields that are left out do not change; `file_ids` is the complete list. */
export interface ProjectPatch {
  name?: string
  instructions?: string
  file_ids?: string[]
}

/** The provider's explanation. `agrees` is null if it can't be compared with ours. */
export interface ProviderSays {
  text: string
  agrees: boolean | null
}

/** Whether a message still waits for its turn. */
export type QueueStatus = 'begun' | 'cancelled' | 'failed' | 'queued'

/**
 * A message or command of the queue; `position` counts from 1, null if it waits no more.
 * `starting`: its turn is about to be stored, which may wait for a compaction; it can't be changed any more.
 */
export interface QueuedMessage {
  id: string
  object: 'queued_message'
  conversation_id: string
  kind: 'command' | 'message'
  position: number | null
  sender: string
  text: string
  file_ids: string[]
  model: string | null
  models: string[]
  sent_at: string
  timezone: string
  due_at: string | null
  status: QueueStatus
  starting: boolean
  turn_id: string | null
}

/** `PATCH /api/v1/conversations/{id}/queue/{message_id}`. */
export interface QueuedPatch {
  text: string
}

/** A passage that the second model read. */
export interface ReadPassage {
  id: string
  title: string
  headings: string[]
  text: string
}

/**
 * How ready a base is for restricted readers.
 * `languages` counts documents by language, such as `{"en": 12, "de": 3}`; of those in `unknown_language`
 * nothing can be said. `terms` are names that were found in the documents, 1,000 at most. `headings` are
 * titles and headings that hold names or figures, 200 at most. `answers_per_day` and `short_answers_per_day`
 * are what a reader gets at most in 24 hours, 0 without a bound.
 */
export interface Readiness {
  object: 'restricted_readiness'
  second_model: boolean
  word_lists: boolean
  documents: number
  languages: Record<string, number>
  unknown_language: string[]
  headings: TellingHeading[]
  told: ToldText[]
  terms: string[]
  answers_per_day: number
  short_answers_per_day: number
}

/** A piece of thinking. */
export interface ReasoningPacket {
  type: 'reasoning.delta'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  text: string
}

/**
 * `POST /api/v1/lines/records`: a request that a program sent to the vendor itself, with its answer.
 * `body` and `answer` are the bytes that passed, as text; `markers` are those that were added to the body.
 * `headers` are those of the answer, `age` the seconds since the request began, `took` the seconds until its
 * answer had ended. `account` names the cache that requests share, such as an address with a digest of the
 * key.
 */
export interface RecordBody {
  dialect: 'messages' | 'chat' | 'responses'
  body: string
  status: number
  headers?: Record<string, string>
  answer?: string
  markers?: AddedMarkerBody[]
  age?: number
  took?: number
  left?: boolean
  client?: string
  session?: string | null
  account?: string
}

/** A request as it was recorded: its line, and why it read what it read from the cache. */
export interface Recorded {
  object: 'line.request'
  line: Line
  request: ModelRequest
  relation: Relation
  why: string
  cause: Cause
}

/** How a request stands to the newest one of its line. */
export type Relation = 'again' | 'branch' | 'new' | 'next' | 'rewritten'

/**
 * What stands upstream in the place of messages of a line (managed context).
 * `kind` is `summary`, `prune` (old results of tools are stubs), or `undone` for a summary that was taken
 * back. `numbers` are the figures behind it: `before` and `after` are tokens of the window. `request_id` is
 * the first request that had it, null for none.
 */
export interface Replacement {
  id: string
  object: 'line.replacement'
  kind: ReplacementKind
  made_at: string
  why: string
  numbers: Record<string, number>
  summary: string
  request_id: string | null
}

/** What stands upstream in the place of a client's messages. */
export type ReplacementKind = 'prune' | 'summary' | 'undone'

/**
 * The first difference between a request and the one before; `difference` is null if it begins with all of
 * that.
 */
export interface RequestDiff {
  object: 'request.diff'
  request_id: string
  before_id: string | null
  difference: Difference | null
  cause: Cause
  by: Origin | null
  text: string
  provider: ProviderSays | null
}

/**
 * A request with its window, segment by segment.
 * `why` says in one sentence what was read from the cache, what it cost, and why not more was read. `id`,
 * `turn_id` and `why` are null for a request that was not sent.
 */
export interface RequestMap {
  id: string | null
  object: 'request'
  turn_id: string | null
  run_id: string | null
  step: number
  purpose: string
  letters: string
  model: string
  layout: string
  marker_policy: string
  thinking_effort: string
  at: string
  estimate: number
  budget: number
  predicted: Predicted
  usage: UsageBody | null
  cost: number | null
  error: ErrorBody | null
  provider_request_id: string | null
  dropped_thinking: number
  answer_id: string | null
  diagnosis: Diagnosis | null
  expired: Expired | null
  segments: Segment[]
  notes: SegmentNote[]
  absent: Absent[]
  why: string | null
}

/** A request is about to be sent: its map is there to be looked at. */
export interface RequestStarted {
  type: 'request.started'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  request_id: string
  step: number
  purpose: string
  letters: string
  estimate: number
  budget: number
  predicted_read: number
}

/** The thinking parameters sent for an effort. At most one is set: a level, a budget in tokens, or `disabled`. */
export interface RequestedEffort {
  level: string | null
  budget: number | null
  disabled: boolean
}

/** What restricted readers get of a base. */
export type RestrictedLevel = 'existence' | 'form' | 'summary'

/**
 * What would be told on a question: `safe` is what a reader gets, all else is for the owner.
 * `said` is what the second model said before the guard, "" if it gave no summary; `removed` are the kinds of
 * what the guard found in that.
 */
export interface RestrictedPreview {
  object: 'restricted_preview'
  query: string
  safe: SafeAnswer
  said: string
  sentences: CheckedSentence[]
  removed: string[]
  confidence: number | null
  model: string | null
  cached: boolean
  passages: ReadPassage[]
}

/** `POST /api/v1/knowledge-bases/{base_id}/restricted-preview`. */
export interface RestrictedPreviewBody {
  query: string
  max_results?: number
}

/**
 * What would be told on several questions; `refused` is the share of them that got a refusal, `cut` the share
 * of the second model's sentences that were cut, both from 0 to 1. `not_asked` are the questions that the time
 * limit left out.
 */
export interface RestrictedPreviews {
  object: 'restricted_previews'
  data: RestrictedPreview[]
  refused: number
  cut: number
  not_asked: string[]
}

/** `POST /api/v1/knowledge-bases/{base_id}/restricted-previews`. */
export interface RestrictedPreviewsBody {
  queries: string[]
  max_results?: number
  seconds?: number
}

/**
 * What a reader asked of a base: answers (`short` are of one short sentence), and how often each alert came
 * up.
 */
export interface RestrictedReader {
  id: string
  object: 'restricted_reader'
  name: string
  answers: number
  short: number
  limited: number
  covered: number
  named: number
  alerts: ('covered' | 'daily_limit' | 'name')[]
  last_at: string
}

/**
 * The names of a base: `found` in its documents (the commonest `MOST_TERMS`), and what its owner says of them.
 * `state` is `indexing` while they are being found.
 */
export interface RestrictedTerms {
  object: 'restricted_terms'
  state: 'indexing' | 'ready'
  found: Term[]
  confirmed: string[]
  allowed: string[]
}

/** `PUT /api/v1/knowledge-bases/{base_id}/restricted-terms`; what is left out stays. */
export interface RestrictedTermsBody {
  confirmed?: string[] | null
  allowed?: string[] | null
}

/**
 * A question to a restricted base, and how that ended.
 * `released` is what the reader got, "" for a refusal; `passage_ids` are the `passages` that the second model
 * was shown (`doc_3:1200`: a document and a place in it).
 */
export interface RestrictedUse {
  id: string
  object: 'restricted_use'
  user_id: string
  name: string
  at: string
  question: string
  decision: 'answer' | 'refuse'
  reason: string
  passages: number
  passage_ids: string[]
  released: string
  short: boolean
  removed: string[]
  alerts: ('covered' | 'daily_limit' | 'name')[]
  cached: boolean
  model: string | null
  input_tokens: number
  output_tokens: number
}

/** The result of a call that was handed out, as the model is to read it. */
export interface ResultBody {
  call_id: string
  content: string
  is_error?: boolean
}

/** The answer to an interrupt: `payload` is {approved, reason}. */
export interface ResumeEntry {
  interruptId: string
  status: 'resolved' | 'cancelled'
  payload?: unknown
  metadata?: Record<string, unknown> | null
}

/** For how many days packets and request bodies are kept; null: for good. */
export interface Retention {
  packets_days: number | null
  requests_days: number | null
}

/** The role of a user on the server. No role gives access to another user's conversations, files or bases. */
export type Role = 'admin' | 'member'

/** One model's answer; `message_id` is its last message, which a turn can follow, `stop_reason` why that ended. */
export interface Run {
  id: string
  object: 'run'
  model_index: number
  model: string
  status: TurnStatus
  message_id: string | null
  answer: string
  stop_reason: StopReason | null
  error: ErrorBody | null
  usage: UsageBody
  cost: number
  finished_at: string | null
}

/**
 * A run ended. `status` is its stop reason, or `error` with the object of API errors. `usage` and `cost` are
 * sums over its requests. `stopped_at` is the stop sequence of the request before which the answer ended, or
 * "".
 */
export interface RunFinished {
  type: 'run.finished'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  run_id: string
  status: string
  error: ErrorBody | null
  usage: UsageBody | null
  cost: number
  stopped_at: string
}

/** A model began to answer. `caution` names facts that the model table lacks; null if it has them all. */
export interface RunStarted {
  type: 'run.started'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  run_id: string
  model: string
  caution: string | null
}

/** The answer that a restricted reader gets. */
export interface SafeAnswer {
  decision: 'answer' | 'refuse'
  reason: string
  summary: string
}

/** The most that a key allows. The user's own rights limit it further. */
export type Scope = 'manage' | 'read' | 'write'

/** The hits of a search. `lexical_only_reason` says why vectors took no part, null if they did. */
export interface Search {
  object: 'search'
  query: string
  embedder: string
  lexical_only_reason: string | null
  data: SearchHit[]
  sessions: SessionHit[]
}

/** `POST /api/v1/knowledge-bases/search`. `document_ids` left out is all. */
export interface SearchBody {
  query: string
  knowledge_base_ids: string[]
  document_ids?: string[] | null
  max_results?: number
}

/** A found passage. `call_id` and `name` are set for a tool's result. */
export interface SearchHit {
  object: 'search.hit'
  conversation_id: string
  session_id: string
  turn_id: string
  message_id: string
  call_id: string | null
  role: 'assistant' | 'tool' | 'user'
  name: string | null
  at: string
  score: number
  snippet: Snippet
}

/** A conversation or an agent that searches a base. */
export interface Searcher {
  id: string
  object: 'agent' | 'conversation'
  name: string
}

/** A segment of a window. `measured` is false if its tokens are an estimate. */
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
  measured: boolean
  read: number
  written: number
  fresh: number
  blocks: number
  markers: SegmentMarker[]
  text_preview: string
}

/** A cache marker: the lifetime of the prefix that it ends, and why it is there. */
export interface SegmentMarker {
  ttl: string
  why: string
}

/** Something to know about a segment, or about the whole window. */
export interface SegmentNote {
  segment: string | null
  text: string
}

/**
 * A session. Its window holds the turns after `begins_after`.
 * `numbers` are the figures of the compaction that opened it, in tokens; `usage` is its usage by purpose.
 * `check` compares its summary with the source, and names the model.
 */
export interface Session {
  id: string
  object: 'session'
  conversation_id: string
  number: number
  current: boolean
  parent_id: string | null
  begins_after: string | null
  inherits_summary: boolean
  carried_summaries: Carried[] | null
  opened_at: string
  opened_by: SessionCause
  closed_at: string | null
  closed_by: SessionCause | null
  why: string
  summary: string | null
  summary_tokens: number
  check: SummaryCheck
  messages: number
  numbers: Record<string, number>
  usage: Record<string, UsageBody>
}

/** Why a session began, and the one before it ended. */
export type SessionCause = 'branch' | 'compaction' | 'created' | 'new' | 'resume' | 'undo'

/** A session that was found, with its best passage. */
export interface SessionHit {
  id: string
  object: 'search.session'
  conversation_id: string
  number: number
  opened_at: string
  score: number
  summary: string | null
  best: SearchHit | null
}

/** `POST /api/v1/setup`: the first admin's name, and the first-run token that the server printed. */
export interface SetUpBody {
  name: string
  token?: string | null
}

/** A piece of a text around the words of a query: it begins at character `start`, and `marks` are places in it. */
export interface Snippet {
  text: string
  start: number
  marks: Mark[]
}

/** A document that the answer cites, sent before its first citation in a turn. */
export interface SourcePacket {
  type: 'source'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  document: number
  title: string
  file_id: string | null
  url: string | null
}

/** A file that came with a message, under its number in the conversation; `reason` says why it has no text. */
export interface StartedDocument {
  document: number
  file_id: string
  title: string
  reason: string | null
}

/**
 * The server's version, the model that answers, and how long records are kept. `dropped_records`: requests of
 * clients that were answered and not recorded since the start, because too many waited for their records.
 */
export interface Status {
  version: string
  model: string
  provider: string
  demonstration: boolean
  notice: string | null
  data_dir: string
  max_upload_bytes: number
  retention: Retention
  dropped_records: number
}

/** Why an inference ended. */
export type StopReason = 'end_turn' | 'error' | 'interrupted' | 'max_tokens' | 'refusal' | 'tool_calls' | 'user_cancelled'

/** A run that was asked to stop. */
export interface StoppingRun {
  id: string
  object: 'run'
  turn_id: string
}

/** A turn that was asked to stop. `status` is `running` until it stopped. */
export interface StoppingTurn {
  id: string
  object: 'turn'
  status: TurnStatus
}

/**
 * The comparison of a summary with its source: `items` were looked for, `kept_literally` were added word for
 * word. `ranks` is the importance of each line, 0 most. Empty if nothing was checked.
 */
export interface SummaryCheck {
  items?: number
  found?: number
  kept_literally?: string[]
  missing?: string[]
  missing_count?: number
  invented?: string[]
  unknown_ids?: string[]
  model?: string
  ranks?: number[]
}

/** A version of the system prompt. `shipped`: its text is the one that comes with the server. */
export interface SystemPrompt {
  object: 'system_prompt'
  version: number
  text: string
  note: string
  shipped: boolean
  created_at: string | null
}

/** A title or heading of a document that holds names or figures, and how it reads without them (`masked`). */
export interface TellingHeading {
  document: string
  heading: string
  masked: string
}

/** A name that the documents of a base give. */
export interface Term {
  term: string
  kind: 'phrase' | 'word'
  language: string
  count: number
}

/** A piece of the answer, exactly as the model wrote it. */
export interface TextPacket {
  type: 'text.delta'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  text: string
}

/** A text that the owner wrote, what restricted readers are `told` of it, and why not all (`cuts`). */
export interface ToldText {
  field: string
  text: string
  told: string
  cuts: string[]
}

/** A tool; `input_schema` is the JSON Schema of its arguments. */
export interface Tool {
  name: string
  object: 'tool'
  description: string
  input_schema: Record<string, unknown>
}

/** A call waits for the user: approve or deny it at `/turns/{turn_id}/calls/{call_id}/approval`. */
export interface ToolApprovalPacket {
  type: 'tool.approval'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  name: string
  arguments: string
}

/** A piece of the arguments' JSON text. */
export interface ToolArgsPacket {
  type: 'tool.args.delta'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  json: string
}

/** A tool call began. `renderer` hints how to show it. */
export interface ToolCallPacket {
  type: 'tool.call'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  name: string
  renderer: string
}

/**
 * A call of one of the caller's own tools: the caller runs it. The turn ends, and a next one brings its
 * result.
 */
export interface ToolHandedOut {
  type: 'tool.handed_out'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  name: string
  arguments: string
}

/**
 * The result of a tool, as the model reads it. `seconds`: how long it ran; null if it did not run.
 * `queries`: all queries of a search; `rich`: JSON that people see in addition, such as documents with scores.
 */
export interface ToolResultPacket {
  type: 'tool.result'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  name: string
  content: string
  is_error: boolean
  seconds: number | null
  queries: string[]
  rich: string
}

/** The user's decision on a waiting call. An approved call runs now. */
export interface ToolVerdictPacket {
  type: 'tool.verdict'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  call_id: string
  approved: boolean
}

/** The turns of a conversation in all branches, and its current position. */
export interface Tree {
  object: 'list'
  data: Branch[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
  head: string | null
  head_run_id: string | null
}

/**
 * A turn. Its packets have the whole answer, `answer` the text. `parent_id` is the turn that it follows, null
 * at the beginning; usage and cost are sums over its `runs`. `expired`: its packets are not kept any more.
 * `results` are those that its caller brought for the calls of that turn; without a text it goes on with them.
 */
export interface Turn {
  id: string
  object: 'turn'
  conversation_id: string
  parent_id: string | null
  parent_run_id: string | null
  status: TurnStatus
  model: string
  user_message_id: string
  text: string
  results: CallResult[]
  sent_at: string
  timezone: string
  documents: Attachment[]
  answer: string
  runs: Run[]
  error: ErrorBody | null
  usage: UsageBody
  cost: number
  started_at: string
  finished_at: string | null
  expired: Expired | null
}

/** The last packet of every turn. */
export interface TurnFinished {
  type: 'turn.finished'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  status: string
  usage: UsageBody
  cost: number
}

/**
 * How to answer; each field as in `POST /api/v1/conversations/{conversation_id}/turns`.
 * `append`: the messages are all new and follow the conversation's current position. `resumable`: the turn
 * goes on if the client leaves, and can be followed again.
 */
export interface TurnOptions {
  model?: string | null
  timezone?: string
  dynamic_context?: string[] | null
  layout?: string | null
  marker_policy?: string | null
  agent_id?: string | null
  thinking_effort?: string | number | null
  knowledge_base_ids?: string[]
  append?: boolean
  resumable?: boolean
}

/**
 * The message or command is in the queue. It has no turn yet, so `n` is 0; the packets of its turn follow.
 * `position` counts from 1. `due_at` is the end of its debounce; None for a command.
 */
export interface TurnQueued {
  type: 'turn.queued'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  message_id: string
  position: number
  due_at: string | null
}

/** The turn has its ids; the user message is stored. `documents` are the files that came with it. */
export interface TurnStarted {
  type: 'turn.started'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  conversation_id: string
  user_message_id: string
  sent_at: string
  documents: StartedDocument[]
}

/** Whether a turn runs, or how it ended. */
export type TurnStatus = 'failed' | 'finished' | 'interrupted' | 'running' | 'stopped'

/**
 * The turn ended early: `user_cancelled`, or `interrupted` by the end of a process. The partial answer is
 * stored.
 */
export interface TurnStopped {
  type: 'turn.stopped'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  reason: 'interrupted' | 'user_cancelled'
}

/**
 * What `useChat` sends: the chat's `id`, all its `messages`, and what to do. More fields come from `body`.
 * `tools` are the application's own, by name.
 */
export interface UiChatBody {
  model?: string | null
  timezone?: string
  dynamic_context?: string[] | null
  layout?: string | null
  marker_policy?: string | null
  agent_id?: string | null
  thinking_effort?: string | number | null
  knowledge_base_ids?: string[]
  append?: boolean
  resumable?: boolean
  id: string
  messages: UiMessage[]
  trigger?: 'submit-message' | 'regenerate-message'
  messageId?: string | null
  tools?: Record<string, UiTool> | null
}

/** A message of the chat. Parts are read of new messages only, and of calls that wait for the user's answer. */
export interface UiMessage {
  id: string
  role: 'system' | 'user' | 'assistant'
  parts: Record<string, unknown>[]
}

/** A tool that the application runs. */
export interface UiTool {
  description?: string
  inputSchema?: Record<string, unknown> | null
}

/**
 * A file. `fits` says whether its text has room in the default model's window; if not, it is read in pieces.
 * `code` and `reason` say why it could not be read, or does not fit. A picture has a size in pixels.
 */
export interface UploadedFile {
  id: string
  object: 'file'
  name: string
  size: number
  media_type: string
  status: 'failed' | 'ready'
  code: string | null
  reason: string | null
  tokens: number
  fits: boolean
  pages: number | null
  width: number | null
  height: number | null
  created_at: string
}

/**
 * `Usage` as clients see it. `input` is the whole prompt; `cache_write_1h` is the part of `cache_write` that
 * lives for an hour.
 * `estimated`: the provider did not report everything. `input_estimated`: the input is an estimate too;
 * without this mark only the output is.
 */
export interface UsageBody {
  input: number
  cache_read: number
  cache_write: number
  fresh: number
  output: number
  reasoning: number
  estimated: boolean
  cache_write_1h: number
  input_estimated: boolean
}

/** The bill of one request, in tokens and US dollars. */
export interface UsagePacket {
  type: 'usage'
  n: number
  turn_id: string
  model_index: number
  block_index: number | null
  request_id: string
  usage: UsageBody
  cost: number
  budget: number
}

/** A user, for an admin and for themselves. */
export interface User {
  id: string
  object: 'group' | 'user'
  name: string
  role: Role
  disabled: boolean
  created_at: string
}

/** `PATCH /api/v1/users/{id}`. Fields that are left out do not change. */
export interface UserPatch {
  name?: string | null
  role?: 'admin' | 'member' | null
  disabled?: boolean | null
}

/** An error in the words of OpenAI's API; Anthropic's has neither `param` nor `code`. */
export interface VendorErrorBody {
  message: string
  type: string
  param?: string | null
  code?: string | null
}

/** A failure in the form of OpenAI's API, or with a `type` in that of Anthropic's. */
export interface VendorFailure {
  error: VendorErrorBody
  type?: 'error'
}

/**
 * What a request read from the cache, and why not more. `lost` are cached tokens that were not read,
 * `first_changed` the first segment that differs, `by` who changed it.
 */
export interface Why {
  object: 'why'
  request_id: string
  text: string
  cause: Cause
  lost: number
  lost_cost: number | null
  first_changed: string | null
  by: Origin | null
  block: number | null
  byte: number | null
  provider: ProviderSays | null
}

/** The zones of the window, from the longest-lived to the shortest-lived. */
export type Zone = 'fixed' | 'history' | 'trailing' | 'travelling' | 'turn'

/** A page of a list; `last_id` is the `after` of the next. */
export interface ListOf<Item> {
  object: 'list'
  data: Item[]
  first_id: string | null
  last_id: string | null
  has_more: boolean
}
