import { useState } from 'react'
import { explain, type Session, type Told } from '../api.ts'
import { eventsOf, openedBy } from '../commands.ts'
import { fullMoment, moment, tokens } from '../format.ts'
import { useResume, useSessions, useTold } from '../queries.ts'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Panel } from './Panel.tsx'
import styles from './SessionsPanel.module.css'
import { Summary } from './Summary.tsx'

/** The sessions of a conversation, newest first: how each began, what happened in it, and the way back to it. */
export function SessionsPanel({ conversation, onClose }: { conversation: string; onClose: () => void }) {
  const told = useTold(conversation)
  const sessions = useSessions(conversation, told.data?.at(-1)?.id)
  const resume = useResume(conversation)
  const [asked, setAsked] = useState<Session | null>(null)
  const list = sessions.data?.toReversed() ?? []
  return (
    <Panel title="Sessions" detail={sessions.data ? counted(list.length) : undefined} testId="sessions-panel" onClose={onClose}>
      <div className={styles.body}>
        {sessions.error && <QueryError error={sessions.error} />}
        {resume.error && <ErrorNote problem={explain(resume.error)} />}
        <ol className={styles.list}>
          {list.map((session) => (
            <Item key={session.id} session={session} told={told.data ?? []} busy={resume.isPending} onResume={() => setAsked(session)} />
          ))}
        </ol>
      </div>
      {asked && (
        <Confirm
          question={`Go on from session ${asked.number}?`}
          detail="Its messages stand in the window again. What came after it stays, as another branch."
          action="Go on from it"
          onCancel={() => setAsked(null)}
          onConfirm={() => {
            setAsked(null)
            resume.mutate(asked.id)
          }}
        />
      )}
    </Panel>
  )
}

const counted = (count: number) => (count === 1 ? '1 session' : `${count} sessions`)

interface ItemProps {
  session: Session
  told: Told[]
  busy: boolean
  onResume: () => void
}

function Item({ session, told, busy, onResume }: ItemProps) {
  const events = eventsOf(session, told)
  const { before, after } = session.numbers
  const read = Object.values(session.usage).reduce((sum, usage) => sum + usage.input, 0)
  return (
    <li className={styles.item} data-testid="session-item" data-number={session.number} aria-current={session.current}>
      <p className={styles.head}>
        <strong>{session.number}</strong>
        <time dateTime={session.opened_at} title={fullMoment(session.opened_at)}>
          {moment(session.opened_at)}
        </time>
        <span>{openedBy(session)}</span>
        {session.current && <span className={styles.current}>current</span>}
      </p>
      <p className={styles.figures}>
        {session.messages === 1 ? '1 message' : `${session.messages} messages`}
        {before !== undefined && after !== undefined && ` · ${tokens(before)} → ${tokens(after)}`}
        {read > 0 && ` · ${tokens(read)} tokens read for its summary`}
      </p>
      {session.why && <p className={styles.why}>{session.why}</p>}
      {events.map((event) => (
        <p key={event.id} className={styles.event} data-testid="session-event">
          {event.object === 'notification' ? event.text.split('\n')[0] : ''}
        </p>
      ))}
      {session.summary && (
        <details data-testid="session-item-summary">
          <summary>Summary{session.summary_tokens > 0 && ` (${tokens(session.summary_tokens)} tokens)`}</summary>
          <Summary session={session} />
        </details>
      )}
      {!session.current && (
        <button type="button" className={controls.plain} onClick={onResume} disabled={busy} data-testid="session-resume">
          Go on from here
        </button>
      )}
    </li>
  )
}
