import { type DragEvent, useRef } from 'react'
import type { Problem } from '../fields.ts'
import { exact } from '../format.ts'
import type { FileRow, ProjectFiles as Files } from '../projectFiles.ts'
import controls from './controls.module.css'
import { FieldProblem } from './Field.tsx'
import form from './form.module.css'
import { AttachIcon, CloseIcon, FileIcon, WarningIcon } from './icons.tsx'
import styles from './ProjectFiles.module.css'

/** The files of a project with their tokens; what could not be read says why. Files can be dropped here. */
export function ProjectFiles({ files, problem }: { files: Files; problem: Problem | null }) {
  const input = useRef<HTMLInputElement>(null)
  const onDrop = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    files.add(event.dataTransfer.files)
  }
  return (
    <fieldset className={form.group} onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <legend className={form.legend}>Files</legend>
      {files.rows.length > 0 && (
        <ul className={styles.files}>
          {files.rows.map((row) => (
            <Row key={row.key} row={row} onRemove={() => files.remove(row.key)} />
          ))}
        </ul>
      )}
      {problem && <FieldProblem problem={problem} />}
      <div className={form.actions}>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          data-testid="project-files-input"
          onChange={(event) => {
            files.add(event.target.files ?? [])
            event.target.value = ''
          }}
        />
        <button type="button" className={controls.plain} onClick={() => input.current?.click()} data-testid="project-files-add">
          <AttachIcon />
          Add files
        </button>
        <p className={form.hint} data-testid="project-tokens">
          {files.rows.length === 0 ? 'No files yet.' : `${exact(files.tokens)} tokens together.`}
        </p>
      </div>
    </fieldset>
  )
}

function Row({ row, onRemove }: { row: FileRow; onRemove: () => void }) {
  return (
    <li className={styles.file} data-state={row.state} data-testid="project-file">
      {row.state === 'failed' ? <WarningIcon /> : <FileIcon />}
      <span className={styles.name}>
        {row.name}
        {row.reason && <small>{row.reason}</small>}
      </span>
      <span className={styles.size}>{sizeOf(row)}</span>
      <button type="button" className={controls.icon} onClick={onRemove} aria-label={`Remove ${row.name}`}>
        <CloseIcon size={12} />
      </button>
    </li>
  )
}

function sizeOf({ state, share, tokens }: FileRow): string {
  switch (state) {
    case 'uploading':
      return `${Math.round(share * 100)} %`
    case 'reading':
      return 'Reading…'
    case 'failed':
      return 'left out'
    case 'ready':
      return `${exact(tokens)} tokens`
  }
}
