import { Fragment, useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { Turn } from '../api.ts'
import { beside } from '../commands.ts'
import { useNews, useQueue, useSessions, useTold } from '../queries.ts'
import { turns as store, useTurn } from '../turns.ts'
import { Beside } from './Beside.tsx'
import controls from './controls.module.css'
import { DownIcon } from './icons.tsx'
import styles from './Thread.module.css'
import { TurnItem } from './TurnItem.tsx'

interface Props {
  conversation: string
  turns: Turn[]
  loading: boolean
  earlier: (() => Promise<unknown>) | null
  running: string | null
}

/** All turns, oldest first; stays at the end while it grows, unless the reader scrolled away. */
export function Thread({ conversation, turns, loading, earlier, running }: Props) {
  const scroll = useStickyEnd(turns.at(-1)?.id ?? null)
  useReplays(turns)
  const told = useTold(conversation)
  useNews(conversation)
  const sessions = useSessions(conversation, told.data?.at(-1)?.id).data ?? []
  const standing = beside(told.data ?? [], sessions)
  const waiting = useQueue(conversation).data?.length ?? 0
  const empty = !loading && turns.length === 0 && standing.size === 0 && waiting === 0
  const showEarlier = () => {
    const element = scroll.outer.current
    const below = element ? element.scrollHeight - element.scrollTop : 0
    void earlier?.().then(() =>
      requestAnimationFrame(() => {
        if (element) element.scrollTop = element.scrollHeight - below
      }),
    )
  }
  return (
    <div className={styles.frame}>
      <div className={styles.outer} ref={scroll.outer} onScroll={scroll.onScroll} data-testid="thread">
        <div className={styles.inner} ref={scroll.inner}>
          {earlier && (
            <button type="button" className={`${controls.plain} ${styles.earlier}`} onClick={showEarlier}>
              Show earlier messages
            </button>
          )}
          {loading && <p className={styles.quiet}>Loading the conversation…</p>}
          {empty && <p className={styles.quiet}>No messages yet.</p>}
          {!earlier && <Beside standing={standing.get('')} sessions={sessions} turns={turns} />}
          {turns.map((turn) => (
            <Fragment key={turn.siblings[0] ?? turn.id}>
              <TurnItem turn={turn} newest={turn === turns.at(-1)} />
              <Beside standing={standing.get(turn.id)} sessions={sessions} turns={turns} />
            </Fragment>
          ))}
        </div>
      </div>
      {scroll.away && (
        <button type="button" className={styles.jump} onClick={scroll.toEnd} aria-label="Go to the newest message">
          <DownIcon />
        </button>
      )}
      <AnswerStatus running={running} newest={turns.at(-1)?.id ?? null} />
    </div>
  )
}

/** Newest first, so that what is seen is there first. */
function useReplays(turns: Turn[]): void {
  useEffect(() => {
    for (const turn of turns.toReversed()) void store.open(turn.id, turn.status === 'running')
  }, [turns])
}

/** Says in words what became of the answer, for those who do not see it grow. */
function AnswerStatus({ running, newest }: { running: string | null; newest: string | null }) {
  const [watched, setWatched] = useState<string | null>(null)
  const entry = useTurn(newest ?? '')
  useEffect(() => {
    if (running) setWatched(running)
  }, [running])
  const says = {
    running: 'Answering.',
    finished: 'The answer is complete.',
    stopped: 'The answer was stopped.',
    failed: 'The answer failed.',
    interrupted: 'The answer was interrupted.',
  }
  const text = watched !== null && watched === newest && entry ? says[entry.view.outcome] : ''
  return (
    <p className="visually-hidden" role="status" aria-live="polite" data-testid="answer-status">
      {text}
    </p>
  )
}

const NEAR = 48

function useStickyEnd(newest: string | null) {
  const outer = useRef<HTMLDivElement>(null)
  const inner = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  const [away, setAway] = useState(false)

  const toEnd = () => {
    stuck.current = true
    if (outer.current) outer.current.scrollTop = outer.current.scrollHeight
  }
  useLayoutEffect(toEnd, [newest])
  useEffect(() => {
    if (!outer.current || !inner.current) return
    const observer = new ResizeObserver(() => {
      if (stuck.current && outer.current) outer.current.scrollTop = outer.current.scrollHeight
    })
    observer.observe(inner.current)
    observer.observe(outer.current)
    return () => observer.disconnect()
  }, [])
  const last = useRef(0)
  const onScroll = () => {
    const element = outer.current
    if (!element) return
    const below = element.scrollHeight - element.scrollTop - element.clientHeight
    // Only the reader scrolls up; content that grows does not.
    if (below < NEAR) stuck.current = true
    else if (element.scrollTop < last.current) stuck.current = false
    last.current = element.scrollTop
    setAway(below > 400)
  }
  return { outer, inner, away, toEnd, onScroll }
}
