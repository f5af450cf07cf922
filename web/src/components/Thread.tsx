import type { ShownTurn } from '../turn.ts'
import { Fragment, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useBranches } from '../branching.ts'
import { beside } from '../commands.ts'
import { elementOf, mark, type Place, rangesOf, revealInside, usePlace } from '../finding.ts'
import { usePanels } from '../panels.ts'
import { useNews, useQueue, useSessions, useTold } from '../queries.ts'
import { turns as store, useTurn } from '../turns.ts'
import { Beside } from './Beside.tsx'
import controls from './controls.module.css'
import { DownIcon } from './icons.tsx'
import styles from './Thread.module.css'
import { TurnItem } from './TurnItem.tsx'

interface Props {
  conversation: string
  turns: ShownTurn[]
  loading: boolean
  earlier: (() => Promise<unknown>) | null
  running: string | null
}

/** All turns, oldest first; stays at the end while it grows, unless the reader scrolled away. */
export function Thread({ conversation, turns, loading, earlier, running }: Props) {
  const scroll = useStickyEnd(turns.at(-1)?.id ?? null)
  useReplays(turns)
  const going = useFound(usePlace(conversation), turns, loading, earlier, scroll.hold)
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
      <p className={styles.going} role="status" data-testid="going">
        {going && 'Going to the message…'}
      </p>
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
function useReplays(turns: ShownTurn[]): void {
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

/**
 * Brings a passage that was found into view: earlier messages are loaded until its turn is there; if it is on none of
 * them, the conversation goes to its branch. What it stands in gets the focus. True while it is on the way.
 */
function useFound(
  place: Place | null,
  turns: ShownTurn[],
  loading: boolean,
  earlier: (() => Promise<unknown>) | null,
  hold: (find: () => DOMRect | null) => void,
): boolean {
  const { busy, go } = useBranches()
  const panels = usePanels()
  const asked = useRef<Place | null>(null)
  const shown = useRef<Place | null>(null)
  const [lost, setLost] = useState<Place | null>(null)
  const at = place ? turns.findIndex((turn) => turn.id === place.turn_id) : -1
  const entry = useTurn(place?.turn_id ?? '')
  const written = place?.role === 'user' || entry?.view.ended === true
  const going = place !== null && at < 0 && lost !== place
  useEffect(() => {
    if (place === null || !going || loading || shown.current === place) return
    if (earlier) void earlier()
    else if (asked.current !== place) {
      asked.current = place
      go(place.turn_id)
      // Where it can't go now, it says why.
      if (busy) setLost(place)
    } else if (!busy) setLost(place)
  }, [place, turns, loading, busy]) // eslint-disable-line react-hooks/exhaustive-deps
  useLayoutEffect(() => {
    if (place === null || at < 0 || shown.current === place) return
    if (written) shown.current = place
    store.prefer(turns.slice(Math.max(0, at - 2), at + 3).map((turn) => turn.id))
    if (matchMedia('(max-width: 1100px)').matches) panels.close()
    const element = elementOf(place)
    element?.closest<HTMLElement>('[tabindex="-1"]')?.focus({ preventScroll: true })
    const ranges = element && written ? rangesOf(element, place.snippet) : []
    mark(ranges)
    const [first] = ranges
    if (first) revealInside(first)
    hold(() => (first?.startContainer.isConnected ? first : elementOf(place))?.getBoundingClientRect() ?? null)
  }, [place, at >= 0, written]) // eslint-disable-line react-hooks/exhaustive-deps
  return going
}

const NEAR = 48

function useStickyEnd(newest: string | null) {
  const outer = useRef<HTMLDivElement>(null)
  const inner = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  /** Where something stands that is kept in view while what is around it still loads, until the reader scrolls. */
  const held = useRef<(() => DOMRect | null) | null>(null)
  const [away, setAway] = useState(false)

  const toEnd = () => {
    stuck.current = true
    held.current = null
    if (outer.current) outer.current.scrollTop = outer.current.scrollHeight
  }
  useLayoutEffect(toEnd, [newest])
  const align = useCallback(() => {
    const element = outer.current
    const place = held.current?.()
    if (!element || !place) return
    const wanted = element.getBoundingClientRect().top + Math.max(0, (element.clientHeight - place.height) / 3)
    element.scrollTop += place.top - wanted
  }, [])
  const hold = useCallback(
    (find: () => DOMRect | null) => {
      stuck.current = false
      held.current = find
      align()
    },
    [align],
  )
  useEffect(() => {
    const element = outer.current
    if (!element || !inner.current) return
    const observer = new ResizeObserver(() => {
      if (stuck.current) element.scrollTop = element.scrollHeight
      else align()
    })
    observer.observe(inner.current)
    observer.observe(element)
    const letGo = () => {
      held.current = null
    }
    const acts = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const
    for (const act of acts) element.addEventListener(act, letGo, { passive: true })
    return () => {
      observer.disconnect()
      for (const act of acts) element.removeEventListener(act, letGo)
    }
  }, [align])
  const last = useRef(0)
  const onScroll = () => {
    const element = outer.current
    if (!element) return
    const below = element.scrollHeight - element.scrollTop - element.clientHeight
    // Only the reader scrolls up; content that grows does not.
    if (below < NEAR && held.current === null) stuck.current = true
    else if (element.scrollTop < last.current) stuck.current = false
    last.current = element.scrollTop
    setAway(below > 400)
  }
  return { outer, inner, away, toEnd, onScroll, hold }
}
