import type { KnowledgeBase, KnowledgeHit } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { embedderName, useFound } from '../knowledge.ts'
import styles from './BaseSearch.module.css'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { Marked } from './Marked.tsx'

/** Tries the search of a base: what the model's tool would find, with the scores that put it there. */
export function BaseSearch({ base }: { base: KnowledgeBase }) {
  const [text, setText] = useState('')
  const [asked, setAsked] = useState<string | null>(null)
  const found = useFound(base.id, asked)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (text.trim() === '') return
    if (text.trim() === asked) void found.refetch()
    setAsked(text.trim())
  }
  return (
    <section aria-label="Search" className={form.group} data-testid="search-tester">
      <form className={styles.line} role="search" onSubmit={submit}>
        <input
          className={form.control}
          type="search"
          aria-label="What to look for"
          placeholder="What to look for"
          value={text}
          dir="auto"
          maxLength={2000}
          onChange={(event) => setText(event.target.value)}
        />
        <button type="submit" className={controls.strong} disabled={text.trim() === ''} data-testid="search-try">
          Search
        </button>
      </form>
      {found.error && <QueryError error={found.error} />}
      {found.data && !found.error && (
        <>
          <p className={form.hint} data-testid="search-about">
            {found.data.data.length === 0 ? 'Nothing was found.' : `Words: BM25. Vectors: cosine, embedder ${embedderName(found.data.embedder)}. Fused: 1 is the best by both.`}
          </p>
          {found.data.lexical_only_reason && <p className={styles.warning}>By words alone: {found.data.lexical_only_reason}</p>}
          <ol className={styles.hits}>
            {found.data.data.map((hit) => (
              <Hit key={`${hit.document_id}-${hit.position}`} hit={hit} />
            ))}
          </ol>
        </>
      )}
    </section>
  )
}

function Hit({ hit }: { hit: KnowledgeHit }) {
  const place = [hit.page !== null && `page ${hit.page}`, hit.headings.join(' › ')].filter(Boolean).join(', ')
  return (
    <li className={styles.hit} data-testid="search-hit">
      <p className={styles.title}>
        <strong dir="auto">{hit.title}</strong>
        {place && <span> {place}</span>}
      </p>
      <dl className={styles.scores}>
        <Score name="Fused" value={hit.score} />
        <Score name="Words" value={hit.lexical_score} />
        <Score name="Vectors" value={hit.similarity} />
      </dl>
      <p className={styles.snippet} dir="auto">
        <Marked text={hit.snippet.text} marks={hit.snippet.marks} />
      </p>
    </li>
  )
}

function Score({ name, value }: { name: string; value: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd data-testid={`score-${name.toLowerCase()}`}>{value === 0 ? '–' : value.toFixed(3)}</dd>
    </div>
  )
}
