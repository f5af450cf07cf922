import type { KnowledgeBase } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { exact } from '../format.ts'
import { rowsOf, type TermRow, type TermState, useSetTerms, useTerms, withTerm } from '../restricted.ts'
import { Choose } from './Choose.tsx'
import controls from './controls.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import styles from './Restricted.module.css'
import { languageName } from './RestrictedReadiness.tsx'

const PAGE = 50

const KINDS = [
  { kind: 'all', label: 'All' },
  { kind: 'word', label: 'Words' },
  { kind: 'phrase', label: 'Phrases' },
  { kind: 'confirmed', label: 'Added' },
  { kind: 'allowed', label: 'Allowed' },
] as const

type Kind = (typeof KINDS)[number]['kind']

const fits = (row: TermRow, kind: Kind, text: string) =>
  (kind === 'all' || row.kind === kind || row.state === kind) && row.term.toLowerCase().includes(text.trim().toLowerCase())

/** The names of a base: what was found, and what its owner corrects. */
export function RestrictedTerms({ base }: { base: KnowledgeBase }) {
  const terms = useTerms(base.id)
  const change = useSetTerms(base.id)
  const [text, setText] = useState('')
  const [kind, setKind] = useState<Kind>('all')
  const [shown, setShown] = useState(PAGE)
  if (terms.error) return <QueryError error={terms.error} />
  if (!terms.data) return <p className={form.quiet}>Loading…</p>
  const known = terms.data
  const rows = rowsOf(known).filter((row) => fits(row, kind, text))
  const set = (term: string, state: TermState) => change.mutate(withTerm(known, term, state))
  return (
    <div className={styles.part} data-testid="restricted-terms-list">
      <p className={form.hint}>
        Readers are told none of these words, and the second model does not see them. Allow a word if it is no name. Add a name that is
        missing, such as a code name that is an ordinary word.
      </p>
      {change.error && <QueryError error={change.error} />}
      {known.state === 'indexing' && (
        <p className={styles.warning} role="status">
          The names are still being found. Until then readers get no answers.
        </p>
      )}
      <AddTerm busy={change.isPending} onAdd={set} />
      <div className={styles.filter}>
        <input
          className={form.control}
          type="search"
          aria-label="Search the names"
          placeholder="Search…"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setShown(PAGE)
          }}
        />
        <Choose
          aria-label="Which names"
          value={kind}
          options={KINDS.map((one) => ({ id: one.kind, name: one.label }))}
          onChange={(next) => {
            if (next) setKind(next)
            setShown(PAGE)
          }}
        />
      </div>
      <p className={form.hint} role="status">
        {rows.length === 0 ? 'No names.' : `${exact(Math.min(shown, rows.length))} of ${exact(rows.length)}`}
      </p>
      <ul className={form.list}>
        {rows.slice(0, shown).map((row) => (
          <Term key={`${row.term} ${row.language ?? ''}`} row={row} busy={change.isPending} onSet={(state) => set(row.term, state)} />
        ))}
      </ul>
      {rows.length > shown && (
        <div className={form.actions}>
          <button type="button" className={controls.plain} onClick={() => setShown(shown + PAGE)} data-testid="more-terms">
            Show more
          </button>
        </div>
      )}
    </div>
  )
}

function AddTerm({ busy, onAdd }: { busy: boolean; onAdd: (term: string, state: TermState) => void }) {
  const [text, setText] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (text.trim() === '') return
    onAdd(text.trim(), 'confirmed')
    setText('')
  }
  return (
    <form className={styles.filter} onSubmit={submit}>
      <input
        className={form.control}
        aria-label="A name to add"
        placeholder="A word or phrase…"
        dir="auto"
        maxLength={100}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <button type="submit" className={controls.plain} disabled={busy || text.trim() === ''} data-testid="add-term">
        Add as a name
      </button>
    </form>
  )
}

function Term({ row, busy, onSet }: { row: TermRow; busy: boolean; onSet: (state: TermState) => void }) {
  const about = [
    row.state === 'allowed' ? 'allowed: readers may be told it' : row.state === 'confirmed' ? 'added by you' : null,
    row.kind,
    row.language && languageName(row.language),
    row.count > 0 && `found ${exact(row.count)} ${row.count === 1 ? 'time' : 'times'}`,
  ]
  const button = (state: TermState, label: string) => (
    <button type="button" className={controls.plain} disabled={busy} aria-label={`${label} “${row.term}”`} onClick={() => onSet(state)}>
      {label}
    </button>
  )
  return (
    <li className={styles.term} data-testid="restricted-term" data-state={row.state}>
      <span>
        <bdi>{row.term}</bdi>
        <small>{about.filter(Boolean).join(' · ')}</small>
      </span>
      {row.state === 'found' && button('confirmed', 'Confirm')}
      {row.state !== 'allowed' && button('allowed', 'Allow')}
      {row.state !== 'found' && button('found', row.kind === null ? 'Remove' : 'Undo')}
    </li>
  )
}
