import type { AuditKind } from '../objects.ts'
import { useState } from 'react'
import { told, useAudit } from '../admin.ts'
import { fullMoment } from '../format.ts'
import styles from './Entrance.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'

const KINDS: { kind: AuditKind; label: string }[] = [
  { kind: 'grants', label: 'Grants on knowledge bases' },
  { kind: 'members', label: 'Members of groups' },
  { kind: 'restricted-uses', label: 'Uses of restricted bases' },
]

/** What happened, the newest first. What was asked of a base is its owner's to see. */
export function Audit() {
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
