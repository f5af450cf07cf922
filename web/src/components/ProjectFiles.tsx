import type { HeldFile } from '../objects.ts'
import { type DragEvent, useRef, useState } from 'react'
import { api } from '../api.ts'
import type { Problem } from '../fields.ts'
import { exact } from '../format.ts'
import type { FileRow, ProjectFiles as Files } from '../projectFiles.ts'
import { useModels, useStatus } from '../queries.ts'
import { useProjectPlaces } from '../resourceQueries.ts'
import { Choose } from './Choose.tsx'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import { FieldProblem } from './Field.tsx'
import form from './form.module.css'
import { AttachIcon, CloseIcon, FileIcon, WarningIcon } from './icons.tsx'
import styles from './ProjectFiles.module.css'

/** The files of a project with their tokens; what could not be read says why. Files can be dropped here. */
export function ProjectFiles({ files, problem, project }: { files: Files; problem: Problem | null; project: string | null }) {
  const models = useModels().data ?? []
  const usual = useStatus().data?.model ?? null
  const [chosen, setChosen] = useState<string | null>(null)
  const model = chosen ?? usual
  const places = useProjectPlaces(project, model)
  const input = useRef<HTMLInputElement>(null)
  const onDrop = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    files.add(event.dataTransfer.files)
  }
  return (
    <fieldset className={form.group} onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <legend className={form.legend}>Files</legend>
      {project !== null && model !== null && files.rows.length > 0 && (
        <p className={styles.model}>
          For the model
          <Choose
            aria-label="For the model"
            value={model}
            options={models.map(({ id }) => ({ id, name: id }))}
            onChange={setChosen}
            testId="places-model"
          />
        </p>
      )}
      {places.error && <QueryError error={places.error} />}
      {files.rows.length > 0 && (
        <ul className={styles.files}>
          {files.rows.map((row) => (
            <Row
              key={row.key}
              row={row}
              stored={places.data?.files.find((file) => file.id === row.key)}
              onRemove={() => files.remove(row.key)}
            />
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

const PLACES = { in_context: 'in context', searched: 'searched', left_out: 'left out' }

function Row({ row, stored, onRemove }: { row: FileRow; stored: HeldFile | undefined; onRemove: () => void }) {
  return (
    <li className={styles.file} data-state={row.state} data-testid="project-file">
      {row.state === 'failed' ? <WarningIcon /> : row.picture ? <Thumbnail id={row.picture.id} name={row.name} /> : <FileIcon />}
      <span className={styles.name}>
        {row.name}
        {row.reason && <small>{row.reason}</small>}
      </span>
      {stored?.availability && row.state === 'ready' && (
        <span className={styles.place} data-place={stored.availability} title={stored.why} data-testid="place">
          {PLACES[stored.availability]}
        </span>
      )}
      <span className={styles.size}>{sizeOf(row)}</span>
      <button type="button" className={controls.icon} onClick={onRemove} aria-label={`Remove ${row.name}`}>
        <CloseIcon size={12} />
      </button>
    </li>
  )
}

function Thumbnail({ id, name }: { id: string; name: string }) {
  return <img className={styles.thumbnail} src={api.fileAddress(id)} alt={name} loading="lazy" data-testid="thumbnail" />
}

function sizeOf({ state, share, tokens, picture }: FileRow): string {
  switch (state) {
    case 'uploading':
      return `${Math.round(share * 100)} %`
    case 'reading':
      return 'Reading…'
    case 'failed':
      return 'left out'
    case 'ready':
      return picture ? `${picture.width} × ${picture.height}` : `${exact(tokens)} tokens`
  }
}
