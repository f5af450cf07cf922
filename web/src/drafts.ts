/** What is being written, one draft per conversation: text, files on their way, and the sending itself. */

import { useSyncExternalStore } from 'react'
import { api, ApiError, explain, newKey, type NewTurnBody, type Upload, type UploadedFile } from './api.ts'
import { onItsWay } from './beginnings.ts'
import { asked, type Choice, noChoice, severalModels } from './choice.ts'
import type { Packet } from './objects.ts'
import { remember, remembered } from './remembered.ts'
import { pause, type Taken, turns } from './turns.ts'
import { type DraftFile, entryOf, start } from './uploads.ts'

export interface Draft {
  text: string
  files: DraftFile[]
  sending: boolean
  problem: { message: string; hint: string | null } | null
  /** The key of an attempt whose outcome is unknown: the same message sent again uses it, and runs once. */
  key: string | null
  /** The conversation that a first attempt created. */
  created: string | null
  /** What a conversation that does not exist yet shall begin with. */
  choice: Choice
  /** The models that answer beside the conversation's. They stay for the next message. */
  others: readonly string[]
  /** The knowledge bases that a conversation that does not exist yet shall search. */
  bases: readonly string[]
}

const empty: Draft = {
  text: '',
  files: [],
  sending: false,
  problem: null,
  key: null,
  created: null,
  choice: noChoice,
  others: [],
  bases: [],
}
const NEW = 'new'
const ATTEMPTS = 3

/** The new conversation on its way: a preview and a message that ask for it together get the same one. */
let making: Promise<string> | null = null
const drafts = new Map<string, Draft>()
const uploads = new Map<string, Upload>()
const listeners = new Set<() => void>()

function get(conversation: string | null): Draft {
  const key = conversation ?? NEW
  const others = drafts.has(key) ? [] : remembered(compared(conversation))
  if (others.length > 0) drafts.set(key, { ...empty, others })
  return drafts.get(key) ?? empty
}

/** Under what name a tab remembers the models that answer beside a conversation's. */
const compared = (conversation: string | null) => `compare.${conversation ?? NEW}`

function change(conversation: string | null, patch: (draft: Draft) => Partial<Draft>): void {
  const draft = get(conversation)
  drafts.set(conversation ?? NEW, { ...draft, ...patch(draft) })
  for (const listener of listeners) listener()
}

export function useDraft(conversation: string | null): Draft {
  const current = () => get(conversation)
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    current,
    current,
  )
}

export function write(conversation: string | null, text: string): void {
  change(conversation, () => ({ text, key: null, problem: null }))
}

/** Give back a text that could not be changed where it was: it stands behind what is written. */
export function giveBack(conversation: string, text: string): void {
  const { text: written } = get(conversation)
  write(conversation, written.trim() === '' ? text : `${written}\n\n${text}`)
}

export function forgetProblem(conversation: string | null): void {
  change(conversation, () => ({ problem: null }))
}

/** Choose for the new conversation. */
export function choose(patch: Partial<Choice>): void {
  change(null, (draft) => ({ choice: { ...draft.choice, ...patch }, key: null, problem: null }))
}

/** Let the new conversation search these knowledge bases. */
export function chooseBases(bases: readonly string[]): void {
  change(null, () => ({ bases, key: null, problem: null }))
}

/** Let other models answer beside the conversation's. */
export function compareWith(conversation: string | null, others: readonly string[]): void {
  remember(compared(conversation), others)
  change(conversation, () => ({ others, key: null, problem: null }))
}

/** Let go of an agent or project that was removed. */
export function unchoose(id: string): void {
  const { choice, bases } = get(null)
  const { agent_id, project_id } = choice
  if (bases.includes(id)) chooseBases(bases.filter((one) => one !== id))
  if (agent_id === id) choose({ agent_id: null })
  if (project_id === id) choose({ project_id: null })
}

/** Upload files at once; each shows how far it is. `limit` is what the server takes. */
export function attach(conversation: string | null, files: Iterable<File>, limit: number | undefined): void {
  for (const file of files) {
    const entry = entryOf(file, limit)
    change(conversation, (draft) => ({ files: [...draft.files, entry], key: null, problem: null }))
    if (entry.state === 'failed') continue
    const { local } = entry
    const running = start(file, (patch) => update(conversation, local, patch), () => uploads.delete(local))
    uploads.set(local, running)
  }
}

function update(conversation: string | null, local: string, patch: Partial<DraftFile>): void {
  change(conversation, (draft) => ({
    files: draft.files.map((file) => (file.local === local ? { ...file, ...patch } : file)),
  }))
}

export function detach(conversation: string | null, local: string): void {
  uploads.get(local)?.cancel()
  uploads.delete(local)
  change(conversation, (draft) => ({ files: draft.files.filter((file) => file.local !== local), key: null }))
}

/** Why the draft cannot be sent now; null when it can. */
export function obstacle(draft: Draft): string | null {
  if (draft.sending) return 'Sending…'
  const failed = draft.files.find((file) => file.state === 'failed')
  if (failed) return `${failed.name} cannot be sent. Remove it first.`
  const busy = draft.files.find((file) => file.state !== 'ready')
  if (busy) return busy.state === 'reading' ? `Reading ${busy.name}…` : `Uploading ${busy.name}…`
  return null
}

export interface Sent {
  conversation: string
  text: string
  files: UploadedFile[]
  started: Extract<Packet, { type: 'turn.started' }>
}

/** What was sent waits in the queue. */
export interface Waits {
  conversation: string
  queued: string
}

/** A command in the place of a message was answered. */
export interface Answered {
  conversation: string
  command: string
}

/** Send the draft, once `saved` says that what was chosen before it is stored. `model` is the conversation's.
 *  On failure it stays as it was, with the problem in it, and null comes back; so does it if it is stopped before it was sent. */
export async function submit(
  conversation: string | null,
  model: string | null,
  saved: Promise<boolean>,
  later: (conversation: string) => void,
): Promise<Sent | Answered | Waits | null> {
  const draft = get(conversation)
  if (draft.sending) return null
  if (draft.text.trim() === '') {
    change(conversation, () => ({ problem: { message: 'Write a message first.', hint: null } }))
    return null
  }
  if (obstacle(draft) !== null) return null
  const key = draft.key ?? newKey()
  change(conversation, () => ({ sending: true, problem: null, key }))
  const way = onItsWay(conversation)
  try {
    if (!(await saved)) {
      // The refused choice says why. The message was meant for it, so it is not sent without it.
      change(conversation, () => ({ sending: false }))
      return null
    }
    const target = conversation ?? (await begun())
    if (way.stopped()) {
      change(conversation, () => ({ sending: false, key: null }))
      return null
    }
    const value: NewTurnBody = {
      text: draft.text,
      file_ids: filesOf(draft).map((file) => file.id),
      timezone: timezone(),
      ...severalModels(model, draft.others),
    }
    const started = await way.send(target, () => begin(target, key, value, () => later(target)))
    drafts.delete(conversation ?? NEW)
    if (conversation === null) remember(compared(null), [])
    if (draft.others.length > 0) {
      drafts.set(target, { ...empty, others: draft.others })
      remember(compared(target), draft.others)
    }
    for (const listener of listeners) listener()
    if (started.type === 'command') return { conversation: target, command: started.name }
    if (started.type === 'turn.queued') return { conversation: target, queued: started.message_id }
    return { conversation: target, text: draft.text, files: filesOf(draft), started }
  } catch (error) {
    const known = error instanceof ApiError && error.status > 0
    change(conversation, () => ({ sending: false, problem: explain(error), key: known ? null : key }))
    return null
  } finally {
    way.done()
  }
}

/** The id of the new conversation, as it was chosen: made now, or by an attempt or a preview before. */
export async function begun(): Promise<string> {
  const { text, created, choice, bases } = get(null)
  if (created !== null && (await renewed(created, text, choice))) {
    await api.bind(created, bases)
    return created
  }
  making ??= api
    .create({ title: titleOf(text), ...asked(choice) })
    .then(async (made) => {
      change(null, () => ({ created: made.id }))
      if (bases.length > 0) await api.bind(made.id, bases)
      return made.id
    })
    .finally(() => {
      making = null
    })
  return making
}

/** Bring a conversation made before up to what is chosen now; false when it was deleted meanwhile. */
async function renewed(id: string, text: string, choice: Choice): Promise<boolean> {
  const { agent_id, project_id } = choice
  try {
    await api.change(id, { ...(text.trim() ? { title: titleOf(text) } : {}), agent_id, project_id, ...asked(choice) })
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return false
    throw error
  }
}

/** The first words of a message, as the title of its conversation. */
export function titleOf(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ')
  if (line.length <= 60) return line
  const cut = line.slice(0, 60)
  return `${cut.slice(0, Math.max(30, cut.lastIndexOf(' '))).trimEnd()}…`
}

export function filesOf(draft: Draft): UploadedFile[] {
  return draft.files.flatMap(({ file }) => (file ? [file] : []))
}

/** Begin a turn, and ask again with the same key while nobody answers. */
export async function begin(
  conversation: string,
  key: string,
  value: NewTurnBody,
  later: () => void = () => undefined,
): Promise<Taken> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await turns.adopt(await api.begin(conversation, key, value), later)
    } catch (error) {
      // Nobody answered: the same key makes trying again harmless.
      const silent = !(error instanceof ApiError) || error.status === 0
      if (!silent || attempt >= ATTEMPTS) throw silent ? new ApiError(0, unreachableBody) : error
      await pause(attempt)
    }
  }
}

export function timezone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'
}

const unreachableBody = {
  message: 'The message could not be sent: the server cannot be reached.',
  code: 'unreachable',
  hint: 'Your text is kept. Check that the server is running, then send it again.',
}
