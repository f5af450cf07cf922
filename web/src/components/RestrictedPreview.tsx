import type { KnowledgeBase, RestrictedPreview } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { reasonText, usePreview, useUses } from '../restricted.ts'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import styles from './RestrictedPreview.module.css'

/** For the owner of a base: what somebody with restricted access would be told, beside what it was made of. */
export function RestrictedPreview({ base }: { base: KnowledgeBase }) {
  const [text, setText] = useState('')
  const [asked, setAsked] = useState<string | null>(null)
  const preview = usePreview(base.id, asked)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (text.trim() === '') return
    if (text.trim() === asked) void preview.refetch()
    setAsked(text.trim())
  }
  return (
    <section aria-label="Restricted preview" className={form.group} data-testid="restricted-preview">
      <form className={styles.line} onSubmit={submit}>
        <input
          className={form.control}
          aria-label="A question"
          placeholder="A question of a restricted reader…"
          value={text}
          maxLength={2000}
          onChange={(event) => setText(event.target.value)}
        />
        <button type="submit" className={controls.strong} disabled={text.trim() === '' || preview.isFetching} data-testid="restricted-try">
          {preview.isFetching ? 'Asking…' : 'Preview'}
        </button>
      </form>
      {preview.error && <QueryError error={preview.error} />}
      {preview.data && !preview.error && <Shown preview={preview.data} />}
      <Uses base={base} />
    </section>
  )
}

function Shown({ preview }: { preview: RestrictedPreview }) {
  const { safe, said, removed, passages, confidence, model } = preview
  const sure = confidence === null ? '' : `, ${Math.round(confidence * 100)} % sure`
  return (
    <div className={styles.sides}>
      <div>
        <h4 className={styles.head}>Answer to the reader</h4>
        {safe.summary ? (
          <p className={styles.text} data-testid="restricted-safe">
            {safe.summary}
          </p>
        ) : (
          <p className={styles.refused} data-testid="restricted-safe">
            Nothing: {reasonText(safe.reason)}.
          </p>
        )}
        {said !== '' && said !== safe.summary && (
          <>
            <h4 className={styles.head}>What the second model said</h4>
            <p className={styles.text} data-testid="restricted-said">
              {said}
            </p>
            {removed.length > 0 && <p className={form.hint}>The guard found: {removed.join(', ')}.</p>}
          </>
        )}
        {model !== null && (
          <p className={form.hint}>
            {model}
            {sure}
          </p>
        )}
      </div>
      <div>
        <h4 className={styles.head}>What it read: for you alone</h4>
        {passages.length === 0 && <p className={form.hint}>No passages.</p>}
        {passages.map((passage) => (
          <details key={passage.id} className={styles.passage} data-testid="restricted-passage">
            <summary>{[passage.title, ...passage.headings].join(' › ')}</summary>
            <p className={styles.text} dir="auto">
              {passage.text}
            </p>
          </details>
        ))}
      </div>
    </div>
  )
}

function Uses({ base }: { base: KnowledgeBase }) {
  const uses = useUses(base.id)
  const rows = uses.data?.pages.flatMap((page) => page.data) ?? []
  if (uses.error) return <QueryError error={uses.error} />
  if (rows.length === 0) return uses.isSuccess ? <p className={form.hint}>Nobody with restricted access has asked yet.</p> : null
  return (
    <>
      <h4 className={styles.head}>Who asked what</h4>
      <ul className={styles.uses}>
        {rows.map((use) => (
          <li key={use.id} data-testid="restricted-use">
            <p>
              <strong>{use.name}</strong> <time dateTime={use.at}>{new Date(use.at).toLocaleString()}</time>
            </p>
            <p className={styles.text} dir="auto">
              {use.question}
            </p>
            <p className={form.hint}>
              {reasonText(use.reason)}
              {use.removed.length > 0 && `; the guard found: ${use.removed.join(', ')}`}
            </p>
          </li>
        ))}
      </ul>
      {uses.hasNextPage && (
        <button type="button" className={controls.plain} disabled={uses.isFetchingNextPage} onClick={() => void uses.fetchNextPage()}>
          Earlier
        </button>
      )}
    </>
  )
}
