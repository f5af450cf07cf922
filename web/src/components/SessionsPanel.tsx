import { useState } from 'react'
import { explain, type Session, type Notice } from '../api.ts'
import { eventsOf, figuresOf, openedBy } from '../commands.ts'
import { find } from '../finding.ts'
import { fullMoment, moment, tokens } from '../format.ts'
import { useResume, useSearch, useSessions, useTold } from '../queries.ts'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { HitText, keyOf, saidOf } from './Hits.tsx'
import { Panel } from './Panel.tsx'
import styles from './SessionsPanel.module.css'
import { Summary } from './Summary.tsx'
import { UndoCompaction } from './UndoCompaction.tsx'

/** The sessions of a conversation, newest first: how each began, what happened in it, and the way back to it. */
export default function SessionsPanel({ conversation, onClose }: { conversation: string; onClose: () => void }) {
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
        <Search conversation={conversation} sessions={list} />
        <ol className={styles.list}>
          {list.map((session) => (
            <Item key={session.id} session={session} told={told.data ?? []} busy={resume.isPending} onResume={() => setAsked(session)} />
          ))}
        </ol>
      </div>
      {asked && (
        <Confirm
          question={`Go on from session ${asked.number}?`}
          detail="Its messages come back into the window. Later messages stay in another branch."
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

/** Finds what was said in any session, by words and by meaning. */
function Search({ conversation, sessions }: { conversation: string; sessions: Session[] }) {
  const [words, setWords] = useState('')
  const found = useSearch(conversation, words)
  const number = (id: string) => sessions.find((one) => one.id === id)?.number
  return (
    <search className={styles.search}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setWords(String(new FormData(event.currentTarget).get('words') ?? '').trim())
        }}
      >
        <input
          type="search"
          name="words"
          dir="auto"
          maxLength={2000}
          placeholder="Search messages"
          aria-label="Search messages"
          data-testid="sessions-search"
        />
      </form>
      {found.error && <QueryError error={found.error} />}
      {found.data?.data.length === 0 && <p className={styles.figures}>{saidOf(found.data)}</p>}
      {found.data && found.data.data.length > 0 && (
        <ul className={styles.hits} aria-label="What was found">
          {found.data.data.map((hit) => (
            <li key={keyOf(hit)}>
              <button type="button" className={styles.hit} onClick={() => find(hit)} data-testid="search-hit">
                <HitText hit={hit} where={`Session ${number(hit.session_id) ?? '?'}`} />
              </button>
            </li>
          ))}
        </ul>
      )}
    </search>
  )
}

const counted = (count: number) => (count === 1 ? '1 session' : `${count} sessions`)

interface ItemProps {
  session: Session
  told: Notice[]
  busy: boolean
  onResume: () => void
}

function Item({ session, told, busy, onResume }: ItemProps) {
  const events = eventsOf(session, told)
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
        {figuresOf(session)}
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
      {session.opened_by === 'compaction' && <UndoCompaction session={session} />}
      {!session.current && (
        <button type="button" className={controls.plain} onClick={onResume} disabled={busy} data-testid="session-resume">
          Go on from here
        </button>
      )}
    </li>
  )
}
