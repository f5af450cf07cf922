import { bytes, tokens } from '../format.ts'
import { type DraftFile } from '../drafts.ts'
import type { TurnDocument } from '../packets.ts'
import { usePanels } from '../panels.ts'
import styles from './FileChip.module.css'
import { CloseIcon, FileIcon, WarningIcon } from './icons.tsx'

/** A document of a message; opens its text. */
export function DocumentChip({ document }: { document: TurnDocument }) {
  const panels = usePanels()
  const open = () =>
    panels.show({
      kind: 'passage',
      fileId: document.file_id,
      url: null,
      title: document.title,
      document: null,
      start: null,
      end: null,
      page: null,
    })
  const detail = document.reason ?? (document.tokens ? `${tokens(document.tokens)} tokens` : null)
  return (
    <li className={styles.item}>
      <button type="button" className={styles.chip} onClick={open} data-testid="file-chip" title={document.title}>
        <FileIcon />
        {document.document !== null && <span className={styles.number}>{document.document}</span>}
        <span className={styles.name}>{document.title}</span>
        {detail && <span className={document.reason ? styles.reason : styles.detail}>{detail}</span>}
      </button>
    </li>
  )
}

/** A file of the draft: on its way, being read, ready or refused. */
export function DraftChip({ file, onRemove }: { file: DraftFile; onRemove: () => void }) {
  const busy = file.state === 'uploading' || file.state === 'reading'
  return (
    <li className={styles.item}>
      <div className={styles.chip} data-state={file.state} data-testid="file-chip" title={file.reason ?? file.name}>
        {file.state === 'failed' ? <WarningIcon /> : <FileIcon />}
        <span className={styles.name}>{file.name}</span>
        <span className={file.state === 'failed' ? styles.reason : styles.detail}>{stateOf(file)}</span>
        <button type="button" className={styles.remove} onClick={onRemove} aria-label={`Remove ${file.name}`}>
          <CloseIcon size={12} />
        </button>
        {busy && (
          <progress
            className={styles.progress}
            aria-label={`${file.state === 'reading' ? 'Reading' : 'Uploading'} ${file.name}`}
            max={1}
            {...(file.state === 'uploading' ? { value: file.share } : {})}
          />
        )}
      </div>
    </li>
  )
}

function stateOf(file: DraftFile): string {
  switch (file.state) {
    case 'uploading':
      return `${Math.round(file.share * 100)} % of ${bytes(file.size)}`
    case 'reading':
      return 'Reading…'
    case 'failed':
      return file.reason ?? 'The file could not be read.'
    case 'ready':
      return readyText(file)
  }
}

function readyText({ file, size }: DraftFile): string {
  const parts = [file?.tokens ? `${tokens(file.tokens)} tokens` : bytes(size)]
  if (file?.fits === false) parts.push('read in pieces')
  if (file?.pages) parts.push(file.pages === 1 ? '1 page' : `${file.pages} pages`)
  return parts.join(', ')
}
