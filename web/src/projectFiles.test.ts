import { describe, expect, it } from 'vitest'
import { rowOf, rowOfDraft } from './projectFiles.ts'
import { type DraftFile, entryOf } from './uploads.ts'

const uploaded = (media_type: string, patch: Partial<DraftFile> = {}): DraftFile => ({
  ...entryOf(new File(['x'], 'plan.txt', { type: media_type }), undefined),
  state: 'ready',
  file: {
    id: 'file_1',
    object: 'file',
    name: 'plan.txt',
    size: 1,
    media_type,
    status: 'ready',
    code: null,
    reason: null,
    tokens: 7,
    fits: true,
    pages: null,
    width: null,
    height: null,
    created_at: '',
  },
  ...patch,
})

describe('a file of a project', () => {
  it('shows its tokens', () => {
    expect(rowOfDraft(uploaded('text/plain'))).toMatchObject({ state: 'ready', tokens: 7, reason: null })
  })

  it('shows its size when it is a picture', () => {
    const file = { ...uploaded('image/png').file!, name: 'red.png', tokens: 0, width: 40, height: 30 }
    const row = rowOfDraft(uploaded('image/png', { file }))
    expect(row).toMatchObject({ state: 'ready', reason: null, picture: { id: 'file_1', width: 40, height: 30 } })
    const stored = { id: 'file_3', name: 'red.png', media_type: 'image/png', tokens: 0, status: 'ready' as const, width: 4, height: 3 }
    expect(rowOf(stored).picture).toEqual({ id: 'file_3', width: 4, height: 3 })
  })

  it('says why it could not be read', () => {
    const row = rowOfDraft(uploaded('application/pdf', { state: 'failed', reason: 'It is encrypted.' }))
    expect(row).toMatchObject({ state: 'failed', reason: 'It is encrypted.' })
    const stored = { id: 'file_2', name: 'b.pdf', media_type: 'application/pdf', tokens: 0, status: 'failed' as const }
    expect(rowOf(stored)).toMatchObject({ key: 'file_2', state: 'failed', reason: 'It could not be read.' })
  })

  it('is not uploaded when it is too large', () => {
    const entry = entryOf(new File(['12345'], 'a.txt'), 4)
    expect(entry).toMatchObject({ state: 'failed', reason: 'It is larger than the 4 B that this server takes.' })
    expect(entryOf(new File(['1'], '', { type: 'image/png' }), 4)).toMatchObject({ name: 'pasted picture', state: 'uploading' })
  })
})
