/** The files of a project while its form is open: those it has, and those that were added. */

import type { HeldFile } from './objects.ts'
import { useEffect, useRef, useState } from 'react'
import type { Upload, UploadedFile } from './api.ts'
import { type DraftFile, entryOf, isPicture, start } from './uploads.ts'

export interface ProjectFiles {
  rows: FileRow[]
  /** What the project would have: only files that could be read. */
  ids: string[]
  tokens: number
  changed: boolean
  busy: boolean
  add: (files: Iterable<File>) => void
  remove: (key: string) => void
}

export interface FileRow {
  key: string
  name: string
  tokens: number
  state: DraftFile['state']
  share: number
  /** Why it cannot belong to the project. */
  reason: string | null
  picture: ShownPicture | null
}

/** A picture that is stored, with its size in pixels. */
export interface ShownPicture {
  id: string
  width: number
  height: number
}

function pictureOf(file: Pick<HeldFile, 'id' | 'media_type'> & { width?: number | null; height?: number | null }): ShownPicture | null {
  const { id, media_type, width, height } = file
  return isPicture(media_type) && width && height ? { id, width, height } : null
}

export function rowOf(file: HeldFile): FileRow {
  const failed = file.status === 'failed'
  const reason = failed ? 'It could not be read.' : null
  const { id: key, name, tokens } = file
  return { key, name, tokens, state: failed ? 'failed' : 'ready', share: 1, reason, picture: pictureOf(file) }
}

/** A new file as a row. */
export function rowOfDraft(draft: DraftFile): FileRow {
  const { local: key, name, share, state, file } = draft
  const reason = state === 'failed' ? (draft.reason ?? 'It could not be read.') : null
  return { key, name, tokens: file?.tokens ?? 0, state, share, reason, picture: file && pictureOf(file) }
}

export function useProjectFiles(stored: readonly HeldFile[], limit: number | undefined): ProjectFiles {
  const [first] = useState(stored)
  const [kept, setKept] = useState(stored)
  const [drafts, setDrafts] = useState<DraftFile[]>([])
  const uploads = useRef(new Map<string, Upload>())
  useEffect(() => {
    const running = uploads.current
    return () => running.forEach((upload) => upload.cancel())
  }, [])

  const add = (files: Iterable<File>) => {
    for (const file of files) {
      const entry = entryOf(file, limit)
      setDrafts((old) => [...old, entry])
      if (entry.state === 'failed') continue
      const change = (patch: Partial<DraftFile>) =>
        setDrafts((old) => old.map((one) => (one.local === entry.local ? { ...one, ...patch } : one)))
      uploads.current.set(entry.local, start(file, change, () => uploads.current.delete(entry.local)))
    }
  }
  const remove = (key: string) => {
    uploads.current.get(key)?.cancel()
    setKept((old) => old.filter((file) => file.id !== key))
    setDrafts((old) => old.filter((draft) => draft.local !== key))
  }
  const rows = [...kept.map(rowOf), ...drafts.map(rowOfDraft)]
  const added = drafts.filter((draft) => rowOfDraft(draft).state === 'ready').map((draft) => draft.file as UploadedFile)
  return {
    rows,
    ids: [...new Set([...kept, ...added].map((file) => file.id))],
    tokens: rows.reduce((sum, row) => sum + (row.state === 'ready' ? row.tokens : 0), 0),
    changed: kept.length !== first.length || drafts.length > 0,
    busy: rows.some((row) => row.state === 'uploading' || row.state === 'reading'),
    add,
    remove,
  }
}
