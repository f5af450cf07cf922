import type { BaseTotals, KnowledgeBase, KnowledgeDocument } from '../objects.ts'
import { type DragEvent, useRef, useState } from 'react'
import { exact, fullMoment } from '../format.ts'
import { progressOf, type Sending, useDocuments, useDocumentVerbs, useSending } from '../knowledge.ts'
import { useStatus } from '../queries.ts'
import styles from './BaseDocuments.module.css'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { AgainIcon, AttachIcon, CloseIcon, FileIcon, TrashIcon, WarningIcon } from './icons.tsx'
import { MoreButton } from './MoreButton.tsx'

/** The documents of a base: how far each is, and for its owner adding, replacing and removing them. */
export function BaseDocuments({ base }: { base: KnowledgeBase }) {
  const documents = useDocuments(base.id)
  const verbs = useDocumentVerbs(base.id)
  const limit = useStatus().data?.max_upload_bytes
  const sending = useSending(base.id, limit)
  const input = useRef<HTMLInputElement>(null)
  const replacing = useRef<string | null>(null)
  const [removing, setRemoving] = useState<KnowledgeDocument | null>(null)
  const pages = documents.data?.pages ?? []
  const totals = pages[0]?.totals
  const rows = pages.flatMap((page) => page.data)
  const error = documents.error ?? verbs.again.error ?? verbs.remove.error
  const pick = (document: string | null) => {
    replacing.current = document
    if (input.current) {
      input.current.multiple = document === null
      input.current.click()
    }
  }
  const onDrop = (event: DragEvent) => {
    if (!base.is_owner || !event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    event.stopPropagation()
    sending.add(event.dataTransfer.files)
  }
  return (
    <section
      aria-label="Documents"
      className={form.group}
      data-testid="documents"
      onDragOver={(event) => base.is_owner && event.preventDefault()}
      onDrop={onDrop}
    >
      {error && <QueryError error={error} />}
      {totals && <Progress totals={totals} />}
      {base.is_owner && (
        <div className={form.actions}>
          <input
            ref={input}
            type="file"
            multiple
            hidden
            data-testid="documents-input"
            onChange={(event) => {
              sending.add(event.target.files ?? [], replacing.current)
              event.target.value = ''
            }}
          />
          <button type="button" className={controls.plain} onClick={() => pick(null)} data-testid="documents-add">
            <AttachIcon />
            Add documents
          </button>
          <p className={form.hint}>Or drop them here.</p>
        </div>
      )}
      <ul className={styles.list}>
        {sending.rows.slice(0, 20).map((row) => (
          <SendingRow key={row.key} row={row} onForget={() => sending.forget(row.key)} />
        ))}
        {rows.map((document) => (
          <Row
            key={document.id}
            document={document}
            actions={
              base.is_owner
                ? { again: () => verbs.again.mutate(document.id), replace: () => pick(document.id), remove: () => setRemoving(document) }
                : null
            }
          />
        ))}
      </ul>
      {sending.rows.length > 20 && <p className={form.hint}>{exact(sending.rows.length - 20)} more wait to be sent. Keep this open.</p>}
      <MoreButton list={documents}>
        Show more
      </MoreButton>
      {removing && (
        <Confirm
          question={`Remove “${removing.name}”?`}
          detail="It is found no more from then on, and its text goes for good."
          action="Remove"
          onConfirm={() => {
            verbs.remove.mutate(removing.id)
            setRemoving(null)
          }}
          onCancel={() => setRemoving(null)}
        />
      )}
    </section>
  )
}

/** How much of the base is ready. */
function Progress({ totals }: { totals: BaseTotals }) {
  const { documents, unfinished, passages, embedded, tokens } = totals
  const failed = totals.states.failed ?? 0
  if (documents === 0) return <p className={form.quiet}>No documents yet.</p>
  const parts = [
    documents === 1 ? '1 document' : `${exact(documents)} documents`,
    passages === 1 ? '1 passage' : `${exact(passages)} passages`,
    `${exact(tokens)} tokens`,
    unfinished > 0 && `${exact(unfinished)} not finished`,
    failed > 0 && `${exact(failed)} failed`,
  ]
  return (
    <div className={styles.progress} data-testid="documents-progress">
      <p className={form.hint}>{parts.filter(Boolean).join(' · ')}</p>
      {unfinished > 0 && (
        <progress max={documents} value={documents - unfinished} aria-label={`${documents - unfinished} of ${documents} documents are finished`} />
      )}
      {unfinished === 0 && embedded < passages && (
        <p className={form.hint}>{exact(passages - embedded)} passages are found by words alone yet.</p>
      )}
    </div>
  )
}

interface Actions {
  again: () => void
  replace: () => void
  remove: () => void
}

function Row({ document, actions }: { document: KnowledgeDocument; actions: Actions | null }) {
  const { name, state, reason, passages, embedded } = document
  const bad = state === 'failed'
  const busy = !bad && state !== 'ready'
  return (
    <li className={styles.row} data-state={state} data-testid="document">
      {bad ? <WarningIcon /> : <FileIcon />}
      <span className={styles.name} title={`Changed ${fullMoment(document.updated_at)}`}>
        {name}
        <small data-testid="document-state">{progressOf(document)}</small>
        {reason && <small className={bad ? styles.bad : styles.waits}>{reason}</small>}
        {busy && (
          <progress
            aria-label={`${name}: ${progressOf(document)}`}
            max={1}
            {...(state === 'embedding' && passages > 0 ? { value: embedded / passages } : {})}
          />
        )}
      </span>
      {actions && (
        <span className={styles.actions}>
          {!busy && (
            <button type="button" className={controls.icon} onClick={actions.again} aria-label={`Read ${name} again`} title="Read it again">
              <AgainIcon size={14} />
            </button>
          )}
          <button type="button" className={controls.icon} onClick={actions.replace} aria-label={`Replace ${name}`} title="Upload a new version">
            <AttachIcon size={14} />
          </button>
          <button type="button" className={controls.icon} onClick={actions.remove} aria-label={`Remove ${name}`} title="Remove it">
            <TrashIcon size={14} />
          </button>
        </span>
      )}
    </li>
  )
}

function SendingRow({ row, onForget }: { row: Sending; onForget: () => void }) {
  return (
    <li className={styles.row} data-state={row.problem ? 'failed' : 'sending'} data-testid="sending">
      {row.problem ? <WarningIcon /> : <FileIcon />}
      <span className={styles.name}>
        {row.name}
        {row.problem ? (
          <small className={styles.bad}>{row.problem}</small>
        ) : (
          <progress aria-label={`Uploading ${row.name}`} max={1} value={row.share} />
        )}
      </span>
      {row.problem && (
        <button type="button" className={controls.icon} onClick={onForget} aria-label={`Dismiss ${row.name}`}>
          <CloseIcon size={12} />
        </button>
      )}
    </li>
  )
}
