import type { AuditKind } from '../objects.ts'
import { useState } from 'react'
import { told, useAudit } from '../admin.ts'
import { fullMoment } from '../format.ts'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'
import { GroupList } from './GroupList.tsx'
import { UserList } from './UserList.tsx'

const PARTS = ['Users', 'Groups', 'Audit'] as const

/** What an admin keeps: who there is, who belongs together, and what was changed by whom. */
export function PeopleSettings() {
  const [part, setPart] = useState<(typeof PARTS)[number]>('Users')
  return (
    <>
      <div className={form.actions} role="group" aria-label="People">
        {PARTS.map((name) => (
          <button
            key={name}
            type="button"
            className={name === part ? controls.strong : controls.plain}
            aria-pressed={name === part}
            onClick={() => setPart(name)}
            data-testid={`people-${name.toLowerCase()}`}
          >
            {name}
          </button>
        ))}
      </div>
      {part === 'Users' && <UserList />}
      {part === 'Groups' && <GroupList />}
      {part === 'Audit' && <Audit />}
    </>
  )
}

const KINDS: { kind: AuditKind; label: string }[] = [
  { kind: 'grants', label: 'Grants on knowledge bases' },
  { kind: 'members', label: 'Members of groups' },
  { kind: 'restricted-uses', label: 'Uses of restricted bases' },
]

/** What happened, the newest first. What was asked of a base is its owner's to see. */
function Audit() {
  const [kind, setKind] = useState<AuditKind>('grants')
  const entries = useAudit(kind)
  return (
    <section aria-label="Audit" data-testid="audit">
      <select className={form.control} aria-label="What" value={kind} onChange={(event) => setKind(event.target.value as AuditKind)}>
        {KINDS.map((one) => (
          <option key={one.kind} value={one.kind}>
            {one.label}
          </option>
        ))}
      </select>
      {entries.error && <QueryError error={entries.error} />}
      {entries.data?.length === 0 && <p className={form.quiet}>Nothing yet.</p>}
      <ul className={form.list}>
        {entries.data?.map((one) => (
          <li key={one.id} className={styles.member} data-testid="audit-entry">
            <span>
              {told(kind, one)}
              <small>
                {one.by_name} · {fullMoment(one.at)}
              </small>
            </span>
          </li>
        ))}
      </ul>
    </section>
  )
}
