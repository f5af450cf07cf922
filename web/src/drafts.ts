/** What is being written, one draft per conversation: text, files on their way, and the sending itself. */

import { useSyncExternalStore } from 'react'
import { api, ApiError, explain, newKey, upload, type Upload, type UploadedFile } from './api.ts'
import { bytes } from './format.ts'
import { pause, turns } from './turns.ts'
import type { Packet } from './packets.ts'

export interface DraftFile {
  local: string
  name: string
  size: number
  state: 'uploading' | 'reading' | 'ready' | 'failed'
  share: number
  reason: string | null
  file: UploadedFile | null
}

export interface Draft {
  text: string
  files: DraftFile[]
  sending: boolean
  problem: { message: string; hint: string | null } | null
  /** The key of an attempt whose outcome is unknown: the same message sent again uses it, and runs once. */
  key: string | null
  /** The conversation that a first attempt created. */
  created: string | null
}

const empty: Draft = { text: '', files: [], sending: false, problem: null, key: null, created: null }
const NEW = 'new'
const ATTEMPTS = 3

const drafts = new Map<string, Draft>()
const uploads = new Map<string, Upload>()
const listeners = new Set<() => void>()

function get(conversation: string | null): Draft {
  return drafts.get(conversation ?? NEW) ?? empty
}

function change(conversation: string | null, patch: (draft: Draft) => Partial<Draft>): void {
  const draft = get(conversation)
  drafts.set(conversation ?? NEW, { ...draft, ...patch(draft) })
  for (const listener of listeners) listener()
}

export function useDraft(conversation: string | null): Draft {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => get(conversation),
  )
}

export function write(conversation: string | null, text: string): void {
  change(conversation, () => ({ text, key: null, problem: null }))
}

export function forgetProblem(conversation: string | null): void {
  change(conversation, () => ({ problem: null }))
}

/** Upload files at once; each shows how far it is. `limit` is what the server takes. */
export function attach(conversation: string | null, files: Iterable<File>, limit: number | undefined): void {
  for (const file of files) {
    const local = newKey()
    const tooLarge = limit !== undefined && file.size > limit
    const entry: DraftFile = {
      local,
      name: file.name || 'pasted file',
      size: file.size,
      state: tooLarge ? 'failed' : 'uploading',
      share: 0,
      reason: tooLarge ? `It is larger than the ${bytes(limit)} that this server takes.` : null,
      file: null,
    }
    change(conversation, (draft) => ({ files: [...draft.files, entry], key: null, problem: null }))
    if (tooLarge) continue
    const running = upload(file, (share) =>
      update(conversation, local, { share, state: share === 1 ? 'reading' : 'uploading' }),
    )
    uploads.set(local, running)
    void running.done
      .then(
        (done) =>
          update(conversation, local, {
            file: done,
            name: done.name,
            state: done.status,
            reason: done.reason ?? (done.status === 'failed' ? 'The file could not be read.' : null),
          }),
        (error: unknown) => {
          const { message, hint } = explain(error)
          update(conversation, local, { state: 'failed', reason: [message, hint].filter(Boolean).join(' ') })
        },
      )
      .finally(() => uploads.delete(local))
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
  model: string | null
  started: Extract<Packet, { type: 'turn.started' }>
}

/** Send the draft. On failure it stays as it was, with the problem in it, and null comes back. */
export async function submit(conversation: string | null, model: string | null): Promise<Sent | null> {
  const draft = get(conversation)
  if (draft.sending) return null
  if (draft.text.trim() === '') {
    change(conversation, () => ({ problem: { message: 'Write a message first.', hint: null } }))
    return null
  }
  if (obstacle(draft) !== null) return null
  const key = draft.key ?? newKey()
  change(conversation, () => ({ sending: true, problem: null, key }))
  try {
    const target = conversation ?? draft.created ?? (await create(draft.text, model))
    change(conversation, () => ({ created: conversation === null ? target : null }))
    const started = await begin(target, key, draft)
    drafts.delete(conversation ?? NEW)
    for (const listener of listeners) listener()
    return { conversation: target, text: draft.text, files: filesOf(draft), model, started }
  } catch (error) {
    const known = error instanceof ApiError && error.status > 0
    change(conversation, () => ({ sending: false, problem: explain(error), key: known ? null : key }))
    return null
  }
}

async function create(text: string, model: string | null): Promise<string> {
  const made = await api.create({ title: titleOf(text), ...(model ? { model } : {}) })
  return made.id
}

/** The first words of a message, as the title of its conversation. */
export function titleOf(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ')
  if (line.length <= 60) return line
  const cut = line.slice(0, 60)
  return `${cut.slice(0, Math.max(30, cut.lastIndexOf(' '))).trimEnd()}…`
}

function filesOf(draft: Draft): UploadedFile[] {
  return draft.files.flatMap(({ file }) => (file ? [file] : []))
}

async function begin(conversation: string, key: string, draft: Draft): Promise<Sent['started']> {
  const value = {
    text: draft.text,
    file_ids: filesOf(draft).map((file) => file.id),
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC',
  }
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await turns.adopt(await api.begin(conversation, key, value))
    } catch (error) {
      // Nobody answered: the same key makes trying again harmless.
      const silent = !(error instanceof ApiError) || error.status === 0
      if (!silent || attempt >= ATTEMPTS) throw silent ? new ApiError(0, unreachableBody) : error
      await pause(attempt)
    }
  }
}

const unreachableBody = {
  message: 'The message could not be sent: the server cannot be reached.',
  code: 'unreachable',
  hint: 'Your text is kept. Check that the server is running, then send it again.',
}
