import { type ReactNode } from 'react'
import { explain } from '../api.ts'
import { WarningIcon } from './icons.tsx'
import styles from './ErrorNote.module.css'

interface Props {
  problem: { message: string; hint?: string | null }
  children?: ReactNode
}

/** What went wrong and what to do about it. */
export function ErrorNote({ problem, children }: Props) {
  return (
    <div className={styles.note} role="alert" data-testid="error">
      <WarningIcon />
      <div>
        <p className={styles.message}>{problem.message}</p>
        {problem.hint && <p className={styles.hint}>{problem.hint}</p>}
        {children && <div className={styles.actions}>{children}</div>}
      </div>
    </div>
  )
}

/** The same for a query that failed. */
export function QueryError({ error, children }: { error: unknown; children?: ReactNode }) {
  return <ErrorNote problem={explain(error)}>{children}</ErrorNote>
}
