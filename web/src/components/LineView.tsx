import { useRef } from 'react'
import type { Line, ModelRequest } from '../api.ts'
import { about, dollars, exact, fullMoment, moment } from '../format.ts'
import { isOfAgent, useDiff, useSeen, useWhy } from '../lines.ts'
import { usePanels } from '../panels.ts'
import { useOneTurn, useRequests, useTurnList } from '../queries.ts'
import { pathOf } from '../route.ts'
import type { ShownTurn } from '../turn.ts'
import { Bill } from './Bill.tsx'
import styles from './Clients.module.css'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { FirstDifference } from './FirstDifference.tsx'
import { Label, LineFigures, LoopNote } from './LineList.tsx'
import { Markdown } from './Markdown.tsx'
import { MoreButton } from './MoreButton.tsx'

/** Characters of a client's message that are shown without a scroll bar of its own. */
const LONG = 1200

/** One line: its figures, and its turns, the newest first. Nothing is written here: the client goes on with it. */
export function LineView({ line }: { line: Line }) {
  const list = useTurnList(line.id)
  const turns = list.data?.pages.flatMap((page) => page.data) ?? []
  return (
    <>
      <section className={styles.about} aria-label="This conversation" data-testid="line-about">
        <p className={styles.head}>
          <strong>{line.client}</strong>
          {line.label !== 'conversation' && <Label line={line} />}
          <span>{line.model}</span>
          {line.session !== null && (
            <span className={styles.session} title={line.session}>
              session <code>{line.session}</code>
            </span>
          )}
          <time dateTime={line.at} title={fullMoment(line.at)}>
            {moment(line.at)}
          </time>
        </p>
        <LineFigures line={line} />
        <LoopNote line={line} />
        {isOfAgent(line) && (
          <p className={styles.quiet}>
            The client sees texts alone. <a href={pathOf(line.id)}>Show all steps</a>
          </p>
        )}
      </section>
      {list.error && <QueryError error={list.error} />}
      {list.isLoading && <p className={styles.quiet}>Loading the turns…</p>}
      <ol className={styles.turns} aria-label="Turns, newest first" data-testid="line-turns">
        {turns.map((turn, index) => (
          <Turn key={turn.id} turn={turn} number={line.turns - index} />
        ))}
      </ol>
      <MoreButton list={list}>
        Show earlier turns
      </MoreButton>
    </>
  )
}

function Turn({ turn, number }: { turn: ShownTurn; number: number }) {
  const element = useRef<HTMLLIElement>(null)
  const seen = useSeen(element)
  const long = turn.text.length > LONG
  return (
    <li ref={element} className={styles.turn} data-testid="line-turn" data-turn={turn.id}>
      <h2>
        Turn {number}
        <time dateTime={turn.sent_at} title={fullMoment(turn.sent_at)}>
          {moment(turn.sent_at)}
        </time>
      </h2>
      <div
        className={styles.said}
        dir="auto"
        role="group"
        aria-label="Message of the client"
        tabIndex={long ? 0 : undefined}
        data-testid="line-text"
      >
        {turn.text || <span className={styles.quiet}>No text.</span>}
      </div>
      {turn.siblings
        .filter((id) => id !== turn.id)
        .map((id) => (
          <EarlierAnswer key={id} id={id} seen={seen} number={number} />
        ))}
      <Answer turn={turn} seen={seen} name={`turn ${number}`} />
    </li>
  )
}

/** An answer for which the client sent the same messages once more. */
function EarlierAnswer({ id, seen, number }: { id: string; seen: boolean; number: number }) {
  const turn = useOneTurn(seen ? id : null)
  return (
    <details data-testid="line-earlier">
      <summary className={styles.quiet}>An earlier answer: the client sent the same messages again</summary>
      {turn.error && <QueryError error={turn.error} />}
      {turn.data && <Answer turn={turn.data} seen={seen} name={`an earlier answer of turn ${number}`} />}
    </details>
  )
}

function Answer({ turn, seen, name }: { turn: ShownTurn; seen: boolean; name: string }) {
  const requests = useRequests(seen ? turn.id : null)
  return (
    <>
      <div className={styles.answer} role="group" aria-label="Answer" data-testid="line-answer">
        {turn.answer ? (
          <Markdown text={turn.answer} citations={[]} sources={{}} growing={false} />
        ) : (
          <p className={styles.quiet}>The answer has no text.</p>
        )}
        <p className={styles.bill}>
          <span>{turn.model}</span>
          <Bill usage={turn.usage} cost={turn.cost} />
        </p>
      </div>
      {requests.error && <QueryError error={requests.error} />}
      <ol className={styles.requests} aria-label={`Requests of ${name}`}>
        {requests.data?.map((request, index) => (
          <Request key={request.id} request={request} turn={turn.id} number={index + 1} />
        ))}
      </ol>
    </>
  )
}

interface RequestProps {
  request: ModelRequest
  turn: string
  number: number
}

/** A request: its order in letters, what was predicted and read, and why. One that broke the cache shows the change. */
function Request({ request, turn, number }: RequestProps) {
  const element = useRef<HTMLLIElement>(null)
  const panels = usePanels()
  const why = useWhy(request.id, useSeen(element)).data
  const broke = why !== undefined && why.lost > 0
  const difference = useDiff(broke ? request.id : null).data?.difference
  const { usage, predicted } = request
  return (
    <li ref={element} className={styles.request} data-broke={broke} data-testid="line-request">
      <div className={styles.row}>
        <p className={styles.letters} title={request.letters}>
          <span className="visually-hidden">Order of the segments: </span>
          {request.letters}
        </p>
        <button
          type="button"
          className={controls.plain}
          onClick={() => panels.show({ kind: 'context', turn, request: request.id })}
          aria-label={`Inspect request ${number}`}
          data-testid="line-inspect"
        >
          Inspect
        </button>
      </div>
      <p className={styles.quiet}>
        ≈ {exact(predicted.read)} predicted, {usage ? `${about(exact(usage.cache_read), usage.input_estimated)} read` : 'not billed'}
        {usage && ` of ${about(exact(usage.input), usage.input_estimated)}`}
        {request.cost !== null && `, ${about(dollars(request.cost), usage?.estimated)}`}
      </p>
      {request.error && <ErrorNote problem={request.error} />}
      {why && <p className={styles.why} data-testid="line-why">{why.text}</p>}
      {difference && <FirstDifference difference={difference} />}
    </li>
  )
}
