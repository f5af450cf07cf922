import type { ShownDocument } from '../turn.ts'
import { api, type UploadedFile } from '../api.ts'
import { bytes, tokens } from '../format.ts'
import { type DraftFile, isPicture } from '../uploads.ts'
import { usePanels } from '../panels.ts'
import styles from './FileChip.module.css'
import { CloseIcon, FileIcon, WarningIcon } from './icons.tsx'

/** A document of a message; opens its text. A picture is shown instead. */
export function DocumentChip({ document }: { document: ShownDocument }) {
  if (isPicture(document.media_type) && document.file_id) {
    return <Picture id={document.file_id} name={document.title} />
  }
  return <TextChip document={document} />
}

/** A picture, small; opens as it is. */
function Picture({ id, name }: { id: string; name: string }) {
  const address = api.fileAddress(id)
  return (
    <li className={styles.item}>
      <a className={styles.picture} href={address} target="_blank" rel="noopener" title={name} data-testid="picture">
        <img src={address} alt={name} loading="lazy" />
      </a>
    </li>
  )
}

function TextChip({ document }: { document: ShownDocument }) {
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
        <span className={styles.name} dir="auto">
          {document.title}
        </span>
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
        {file.state === 'failed' ? <WarningIcon /> : file.file && isPicture(file.type) ? <Thumbnail file={file.file} /> : <FileIcon />}
        <span className={styles.name} dir="auto">
          {file.name}
        </span>
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

function Thumbnail({ file }: { file: UploadedFile }) {
  return <img className={styles.thumbnail} src={api.fileAddress(file.id)} alt={file.name} data-testid="thumbnail" />
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

function readyText({ file, size, type }: DraftFile): string {
  if (isPicture(type)) return [bytes(size), file?.width && file.height && `${file.width} × ${file.height}`].filter(Boolean).join(', ')
  const parts = [file?.tokens ? `${tokens(file.tokens)} tokens` : bytes(size)]
  if (file?.fits === false) parts.push('read in pieces')
  if (file?.pages) parts.push(file.pages === 1 ? '1 page' : `${file.pages} pages`)
  return parts.join(', ')
}
