import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { type DraftFile, entryOf } from '../uploads.ts'
import { DocumentChip, DraftChip } from './FileChip.tsx'

const file = { object: 'file' as const, fits: true, created_at: '', id: 'file_1', name: 'loom.png', size: 4100, media_type: 'image/png', status: 'ready' as const, reason: null }
const ready: DraftFile = {
  ...entryOf(new File(['x'], 'loom.png', { type: 'image/png' }), undefined),
  state: 'ready',
  size: 4100,
  file: { ...file, code: null, tokens: 0, pages: null, width: 640, height: 480 },
}

describe('a picture', () => {
  it('is shown in the message, named after its file', () => {
    const document = { document: null, file_id: 'file_1', title: 'loom.png', media_type: 'image/png' }
    const html = renderToStaticMarkup(<DocumentChip document={document} />)
    expect(html).toContain('<img src="/api/v1/files/file_1/content" alt="loom.png"')
  })

  it('is shown in the composer once the server has it', () => {
    const html = renderToStaticMarkup(<DraftChip file={ready} onRemove={() => undefined} />)
    expect(html).toContain('src="/api/v1/files/file_1/content" alt="loom.png"')
    expect(html).toContain('4 kB, 640 × 480')
    const coming = { ...ready, state: 'uploading' as const, share: 0.5, file: null }
    expect(renderToStaticMarkup(<DraftChip file={coming} onRemove={() => undefined} />)).not.toContain('<img')
  })

  it('that is a document after all opens its text', () => {
    const document = { document: 1, file_id: 'file_2', title: 'manual.pdf', media_type: 'application/pdf', tokens: 40 }
    expect(renderToStaticMarkup(<DocumentChip document={document} />)).toMatch(/<button[^>]*>.*manual.pdf.*40 tokens/)
  })
})
