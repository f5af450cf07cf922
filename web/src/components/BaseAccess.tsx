import type { Grant, GrantLevel, KnowledgeBase, Readiness } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useGrant, useGrants, useMe, useNames } from '../access.ts'
import { useMissing, useReadiness } from '../restricted.ts'
import { Choose } from './Choose.tsx'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { GrantWarnings } from './RestrictedReadiness.tsx'

const LEVELS: { level: GrantLevel; label: string }[] = [
  { level: 'restricted', label: 'restricted: answers in general words' },
  { level: 'full', label: 'full: everything' },
  { level: 'none', label: 'none: no access, even if a group has some' },
]

/** Who else may read a base of one's own, and how much. */
export function BaseAccess({ base }: { base: KnowledgeBase }) {
  const grants = useGrants(base.id)
  const grant = useGrant(base.id)
  const { data: missing } = useMissing(base.id)
  const { data: readiness } = useReadiness(base.id)
  const refuses = missing?.word_lists === false
  return (
    <section aria-label="Access" data-testid="access">
      <h2 className={form.legend}>Access</h2>
      {(grants.error ?? grant.error) && <QueryError error={grants.error ?? grant.error} />}
      {grants.data?.length === 0 && <p className={form.quiet}>You alone read it.</p>}
      <ul className={form.list}>
        {grants.data?.map((one) => (
          <Member key={one.id} one={one} refuses={refuses} busy={grant.isPending} onChange={(level) => grant.mutate({ id: one.id, level })} />
        ))}
      </ul>
      {grants.data && <Add missing={missing} readiness={readiness} granted={grants.data} busy={grant.isPending} onAdd={(id, level) => grant.mutate({ id, level })} />}
    </section>
  )
}

interface MemberProps {
  one: Grant
  /** The server grants no restricted access. */
  refuses: boolean
  busy: boolean
  onChange: (level: GrantLevel | null) => void
}

function Member({ one, refuses, busy, onChange }: MemberProps) {
  return (
    <li className={styles.member} data-testid="grant">
      <span>
        {one.name}
        <small>{one.kind}</small>
        {one.warning && <small data-testid="grant-warning">{one.warning}</small>}
      </span>
      <span>
        <Choose
          aria-label={`Access of ${one.name}`}
          value={one.level}
          options={LEVELS.map(({ level, label }) => ({ id: level, name: label, disabled: level === 'restricted' && refuses }))}
          disabled={busy}
          onChange={(level) => level && onChange(level)}
        />
      </span>
      <button type="button" className={controls.plain} disabled={busy} onClick={() => onChange(null)} aria-label={`Remove ${one.name}`}>
        Remove
      </button>
    </li>
  )
}

interface AddProps {
  /** What the server lacks; `readiness` comes later, with what the documents say. */
  missing: Readiness | undefined
  readiness: Readiness | undefined
  granted: Grant[]
  busy: boolean
  onAdd: (id: string, level: GrantLevel) => void
}

function Add({ missing, readiness, granted, busy, onAdd }: AddProps) {
  const me = useMe()
  const names = useNames()
  const [who, setWho] = useState('')
  const [level, setLevel] = useState<GrantLevel>('restricted')
  const refused = level === 'restricted' && missing?.word_lists === false
  const taken = new Set([...granted.map((one) => one.id), me.data?.id])
  const open = names.data?.filter((one) => !taken.has(one.id)) ?? []
  if (names.error) return <QueryError error={names.error} />
  if (names.isSuccess && open.length === 0) return <p className={form.quiet}>Everybody has access already.</p>
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onAdd(who, level)
    setWho('')
  }
  return (
    <form className={styles.member} onSubmit={submit} data-testid="add-grant">
      <span>
        <Choose
          aria-label="Who"
          value={who || null}
          none="Somebody…"
          options={open.map(({ id, name, object }) => ({ id, name: object === 'group' ? `${name} (group)` : name }))}
          onChange={(next) => setWho(next ?? '')}
        />
      </span>
      <span>
        <Choose
          aria-label="Level of access"
          value={level}
          options={LEVELS.map((one) => ({ id: one.level, name: one.label }))}
          onChange={(next) => next && setLevel(next)}
        />
      </span>
      <button type="submit" className={controls.strong} disabled={busy || who === '' || refused} data-testid="grant-add">
        Add
      </button>
      {level === 'restricted' && missing && (
        <div className={styles.warnings}>
          <GrantWarnings readiness={readiness ?? missing} />
        </div>
      )}
    </form>
  )
}
