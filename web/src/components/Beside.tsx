import type { ShownTurn } from '../turn.ts'
import type { Session, Notice } from '../api.ts'
import { type Beside as Standing, keptBy } from '../commands.ts'
import { tokens } from '../format.ts'
import { usePanels } from '../panels.ts'
import styles from './Beside.module.css'
import controls from './controls.module.css'
import { Summary } from './Summary.tsx'
import { UndoCompaction } from './UndoCompaction.tsx'

/** What stands behind a turn and no model reads: where a session began, commands with their answers, notifications. */
export function Beside({ standing, sessions, turns }: { standing: Standing | undefined; sessions: Session[]; turns: ShownTurn[] }) {
  if (!standing) return null
  return (
    <>
      {standing.began.map((session) => (
        <Divider
          key={session.id}
          session={session}
          before={sessions.find((one) => one.id === session.parent_id)}
          kept={keptBy(session, turns)}
        />
      ))}
      {standing.told.map((told) => (
        <ToldItem key={told.id} told={told} />
      ))}
    </>
  )
}

/** Where a session began; one that a compaction opened shows the summary that it begins with. */
function Divider({ session, before, kept }: { session: Session; before: Session | undefined; kept: ShownTurn[] }) {
  const { before: from, after: to } = session.numbers
  const settled = session.opened_by === 'compaction' && from !== undefined && to !== undefined
  const undone = session.closed_by === 'undo' ? ' · undone' : ''
  const title = settled ? `Settled ${tokens(from)} → ${tokens(to)}${undone}` : `Session ${session.number}`
  if (!settled || !before?.summary) {
    return (
      <div className={styles.divider} role="separator" aria-label={title} data-testid="session-divider">
        <span>{title}</span>
      </div>
    )
  }
  return (
    <details className={styles.settled} data-testid="session-divider">
      <summary className={styles.divider}>
        <span>{title}</span>
      </summary>
      <div className={styles.summary} data-testid="session-summary">
        <Summary session={before} />
        {kept.length > 0 && (
          <section data-testid="session-kept">
            <h3>Kept as it was said</h3>
            <ul>
              {kept.map((turn) => (
                <li key={turn.id} dir="auto">
                  {turn.text}
                </li>
              ))}
            </ul>
          </section>
        )}
        <UndoCompaction session={session} />
      </div>
    </details>
  )
}

function ToldItem({ told }: { told: Notice }) {
  const panels = usePanels()
  const typed = told.object === 'command' ? `/${told.name} ${told.argument}`.trim() : null
  return (
    <aside className={styles.told} aria-label={typed ?? 'Notification'} data-testid="told">
      {typed && <p className={styles.typed} dir="auto">{typed}</p>}
      <p className={styles.text} dir="auto">
        {told.object === 'command' ? told.answer : told.text}
        {told.name === 'compacted' && typeof told.data.summary_of === 'string' && (
          <>
            {' '}
            <button type="button" className={controls.link} onClick={() => panels.show({ kind: 'sessions' })} data-testid="told-summary">
              Show the summary
            </button>
          </>
        )}
      </p>
    </aside>
  )
}
