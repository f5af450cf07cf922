import type { Grant, GrantLevel, KnowledgeBase } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useGrant, useGrants, useMe, useNames } from '../access.ts'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'

const LEVELS: { level: GrantLevel; label: string }[] = [
  { level: 'restricted', label: 'restricted: summaries only' },
  { level: 'full', label: 'full: everything' },
  { level: 'none', label: 'none: no access, even if a group has some' },
]

/** Who else may read a base of one's own, and how much. */
export function BaseAccess({ base }: { base: KnowledgeBase }) {
  const grants = useGrants(base.id)
  const grant = useGrant(base.id)
  return (
    <section aria-label="Access" data-testid="access">
      <h3 className={form.legend}>Access</h3>
      {(grants.error ?? grant.error) && <QueryError error={grants.error ?? grant.error} />}
      {grants.data?.length === 0 && <p className={form.quiet}>You alone read it.</p>}
      <ul className={form.list}>
        {grants.data?.map((one) => (
          <Member key={one.id} one={one} busy={grant.isPending} onChange={(level) => grant.mutate({ id: one.id, level })} />
        ))}
      </ul>
      {grants.data && <Add granted={grants.data} busy={grant.isPending} onAdd={(id, level) => grant.mutate({ id, level })} />}
    </section>
  )
}

function Member({ one, busy, onChange }: { one: Grant; busy: boolean; onChange: (level: GrantLevel | null) => void }) {
  return (
    <li className={styles.member} data-testid="grant">
      <span>
        {one.name}
        <small>{one.kind}</small>
      </span>
      <select
        className={form.control}
        aria-label={`Access of ${one.name}`}
        value={one.level}
        disabled={busy}
        onChange={(event) => onChange(event.target.value as GrantLevel)}
      >
        {LEVELS.map(({ level, label }) => (
          <option key={level} value={level}>
            {label}
          </option>
        ))}
      </select>
      <button type="button" className={controls.plain} disabled={busy} onClick={() => onChange(null)} aria-label={`Remove ${one.name}`}>
        Remove
      </button>
    </li>
  )
}

interface AddProps {
  granted: Grant[]
  busy: boolean
  onAdd: (id: string, level: GrantLevel) => void
}

function Add({ granted, busy, onAdd }: AddProps) {
  const me = useMe()
  const names = useNames()
  const [who, setWho] = useState('')
  const [level, setLevel] = useState<GrantLevel>('restricted')
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
      <select className={form.control} aria-label="Who" value={who} onChange={(event) => setWho(event.target.value)}>
        <option value="">Somebody…</option>
        {open.map((one) => (
          <option key={one.id} value={one.id}>
            {one.object === 'group' ? `${one.name} (group)` : one.name}
          </option>
        ))}
      </select>
      <select className={form.control} aria-label="GrantLevel" value={level} onChange={(event) => setLevel(event.target.value as GrantLevel)}>
        {LEVELS.map((one) => (
          <option key={one.level} value={one.level}>
            {one.label}
          </option>
        ))}
      </select>
      <button type="submit" className={controls.strong} disabled={busy || who === ''} data-testid="grant-add">
        Add
      </button>
    </form>
  )
}
