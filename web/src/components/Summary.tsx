import type { Session, SummaryCheck } from '../api.ts'
import { Markdown } from './Markdown.tsx'
import styles from './Summary.module.css'

/** The summary of a session, and what a check of it against what was said found. */
export function Summary({ session }: { session: Session }) {
  return (
    <>
      <Markdown text={session.summary ?? ''} citations={[]} sources={{}} growing={false} />
      <Checked check={session.check} />
    </>
  )
}

function Checked({ check }: { check: SummaryCheck }) {
  if (check.items === undefined) return null
  const lists = [
    { name: 'Missing', list: check.missing ?? [] },
    { name: 'Kept literally', list: check.kept_literally ?? [] },
    { name: 'Not in the conversation', list: check.invented ?? [] },
  ].filter(({ list }) => list.length > 0)
  return (
    <div className={styles.check} data-testid="summary-check">
      <p>
        {check.found} of {check.items} facts of the conversation were found in the summary.
      </p>
      {lists.map(({ name, list }) => (
        <p key={name}>
          <strong>{name}:</strong> {list.join(' · ')}
        </p>
      ))}
    </div>
  )
}
