/** A file on its way to the server, as it is shown: in the composer and in a project. */

import { explain, newKey, upload, type Upload, type UploadedFile } from './api.ts'
import { bytes } from './format.ts'

export interface DraftFile {
  local: string
  name: string
  size: number
  /** What the browser takes it for, until the server has looked. */
  type: string
  state: 'uploading' | 'reading' | 'ready' | 'failed'
  share: number
  reason: string | null
  file: UploadedFile | null
}

export const isPicture = (mediaType: string | null | undefined) => mediaType?.startsWith('image/') ?? false

/** What is shown of a file at once. `limit` is what the server takes. */
export function entryOf(file: File, limit: number | undefined): DraftFile {
  const tooLarge = limit !== undefined && file.size > limit
  return {
    local: newKey(),
    name: file.name || (isPicture(file.type) ? 'pasted picture' : 'pasted file'),
    size: file.size,
    type: file.type,
    state: tooLarge ? 'failed' : 'uploading',
    share: 0,
    reason: tooLarge ? `It is larger than the ${bytes(limit)} that this server takes.` : null,
    file: null,
  }
}

/** Upload it; `change` hears how far it is and what became of it. */
export function start(file: File, change: (patch: Partial<DraftFile>) => void, finished: () => void): Upload {
  const running = upload(file, (share) => change({ share, state: share === 1 ? 'reading' : 'uploading' }))
  void running.done
    .then(
      (done) => change(readOf(done)),
      (error: unknown) => {
        const { message, hint } = explain(error)
        change({ state: 'failed', reason: [message, hint].filter(Boolean).join(' ') })
      },
    )
    .finally(finished)
  return running
}

function readOf(done: UploadedFile): Partial<DraftFile> {
  const reason = done.reason ?? (done.status === 'failed' ? 'The file could not be read.' : null)
  return { file: done, name: done.name, type: done.media_type, state: done.status, reason }
}
