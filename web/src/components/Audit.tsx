import type { AuditKind } from '../objects.ts'
import { useState } from 'react'
import { told, useAudit } from '../admin.ts'
import { fullMoment } from '../format.ts'
import { Choose, type Option } from './Choose.tsx'
import styles from './Entrance.module.css'
import { QueryError } from './ErrorNote.tsx'
import form from './form.module.css'

const KINDS: Option<AuditKind>[] = [
  { id: 'grants', name: 'Grants on knowledge bases' },
  { id: 'members', name: 'Members of groups' },
  { id: 'restricted-uses', name: 'Uses of restricted bases' },
]

/** What happened, the newest first. What was asked of a base is its owner's to see. */
export function Audit() {
  const [kind, setKind] = useState<AuditKind>('grants')
  const entries = useAudit(kind)
  return (
    <section aria-label="Audit" data-testid="audit">
      <Choose aria-label="What" value={kind} options={KINDS} onChange={(next) => next && setKind(next)} />
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
