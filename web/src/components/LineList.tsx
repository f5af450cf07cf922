import type { ReactNode } from 'react'
import type { Line } from '../api.ts'
import { about, dollars, exact, fullMoment, moment, percent, tokens } from '../format.ts'
import { grouped, isSideCall, type LineGroup, shareRead } from '../lines.ts'
import { follow, pathOfLine } from '../route.ts'
import styles from './Clients.module.css'

/** The lines by session, newest session first. Side calls stand under the conversation of their session. */
export function LineList({ lines }: { lines: readonly Line[] }) {
  return (
    <ol className={styles.groups} aria-label="Sessions of clients, newest first" data-testid="lines">
      {grouped(lines).map((group) => (
        <Group key={group.key} group={group} />
      ))}
    </ol>
  )
}

function Group({ group }: { group: LineGroup }) {
  return (
    <li className={styles.group} data-testid="line-group">
      <p className={styles.head}>
        <strong>{group.client}</strong>
        {group.session !== null && (
          <span className={styles.session} title={group.session}>
            session <code>{group.session}</code>
          </span>
        )}
        <time dateTime={group.at} title={fullMoment(group.at)}>
          {moment(group.at)}
        </time>
      </p>
      <ul className={styles.lines}>
        {group.lines.map((line) => (
          <Item key={line.id} line={line} />
        ))}
      </ul>
    </li>
  )
}

function Item({ line }: { line: Line }) {
  return (
    <li className={styles.line} data-side={isSideCall(line)} data-testid="line" data-line={line.id}>
      <p className={styles.name}>
        {line.label !== 'conversation' && <Label line={line} />}
        <a
          href={pathOfLine(line.id)}
          dir="auto"
          onClick={follow(pathOfLine(line.id))}
        >
          {line.title || 'Untitled'}
        </a>
      </p>
      <LineFigures line={line} />
      <LoopNote line={line} />
    </li>
  )
}

/** What a side call makes, such as a title; or the agent that answers. */
export const Label = ({ line }: { line: Line }) => <span className={styles.label}>{line.label}</span>

/** That the client loops, or did, in a sentence with its figures. */
export function LoopNote({ line }: { line: Line }) {
  if (!line.alarm) return null
  return (
    <p className={styles.loop} data-active={line.alarm.active} role={line.alarm.active ? 'alert' : undefined} data-testid="line-loop">
      {line.alarm.text}
      {!line.alarm.active && ` It stopped ${moment(line.alarm.at)}.`}
    </p>
  )
}

/** The figures of a line: how much, how much of it from the cache, what breaks cost, and what added markers saved. */
export function LineFigures({ line }: { line: Line }) {
  const share = shareRead(line)
  return (
    <dl className={styles.figures}>
      <Figure name="Turns">{exact(line.turns)}</Figure>
      <Figure name="Tokens">{about(tokens(line.usage?.input ?? 0), line.usage?.input_estimated)}</Figure>
      <Figure name="From cache">{share === null ? 'not billed' : percent(share)}</Figure>
      <Figure name="Breaks" bad={line.breaks > 0}>
        {line.breaks === 0 ? 'none' : `${exact(line.breaks)} (${dollars(line.lost_cost)})`}
      </Figure>
      <Figure name="Cost">{about(dollars(line.cost), line.usage?.estimated)}</Figure>
      {line.saved > 0 && <Figure name="Markers saved">{dollars(line.saved)}</Figure>}
      {line.compactions > 0 && (
        <Figure name="Compactions here">{`${exact(line.compactions)} (saved ${dollars(line.context_saved)})`}</Figure>
      )}
    </dl>
  )
}

function Figure({ name, bad, children }: { name: string; bad?: boolean; children: ReactNode }) {
  return (
    <div data-bad={bad}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
